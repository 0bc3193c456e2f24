package verify

import (
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// planJava builds and tests with Maven or Gradle, whose runners leave JUnit
// reports behind.
func planJava(t *tree, p planning) []job {
	var build, test []invocation
	for _, dir := range t.projects("pom.xml") {
		build = append(build, maven(dir, p.network, FormatExitCode, "test-compile"))
		run := maven(dir, p.network, FormatJUnit, "test")
		run.reports = []string{path.Join(dir, "**/target/surefire-reports/TEST-*.xml"), path.Join(dir, "**/target/failsafe-reports/TEST-*.xml")}
		test = append(test, run)
	}
	if len(build) == 0 {
		for _, dir := range t.projects("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts") {
			build = append(build, gradle(t, dir, p.network, FormatExitCode, "testClasses"))
			run := gradle(t, dir, p.network, FormatJUnit, "test", "--continue")
			run.reports = []string{path.Join(dir, "**/build/test-results/**/TEST-*.xml")}
			test = append(test, run)
		}
	}
	if len(build) == 0 {
		return nil
	}
	for n := range test {
		test[n].audit = resolveJava
	}
	return append([]job{simpleJob(contract.CategoryBuild, "java", "Java build", build...)},
		shardJobs("java", "Java tests", [][]invocation{test})...)
}

func maven(dir string, network []string, f Format, goal string) invocation {
	args := []string{"mvn", "--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"}
	if len(network) == 0 {
		args = append(args, "--offline")
	}
	return invocation{args: append(args, goal), dir: dir, format: f, network: network}
}

func gradle(t *tree, dir string, network []string, f Format, tasks ...string) invocation {
	program := []string{"gradle"}
	if t.has(path.Join(dir, "gradlew")) {
		program = []string{"sh", "./gradlew"} // it need not be executable in a checkout
	}
	program = append(program, "--no-daemon", "--console=plain")
	if len(network) == 0 {
		program = append(program, "--offline")
	}
	return invocation{args: append(program, tasks...), dir: dir, format: f, network: network}
}

// javaFrame is a line of a stack: at com.example.AppTest.fails(AppTest.java:12)
var javaFrame = regexp.MustCompile(`^\s*at (?:[^\s()/]+/)*([\w$.]+)\.[\w$<>]+\((\w+\.(?:java|kt|scala|groovy)):(\d+)\)`)

// javaPlaces are the places of a stack in reverse, so that the innermost comes
// last. The path is that of the package; resolveJava finds the source root.
func javaPlaces(body string) []problem {
	var out []problem
	for line := range strings.Lines(body) {
		if m := javaFrame.FindStringSubmatch(line); m != nil && len(out) < 200 {
			pkg := ""
			if n := strings.LastIndexByte(m[1], '.'); n >= 0 {
				pkg = strings.ReplaceAll(m[1][:n], ".", "/")
			}
			out = append([]problem{{path: path.Join(pkg, m[2]), line: number(m[3])}}, out...)
		}
	}
	return out
}

// resolveJava turns the paths of packages into those of files: of each stack
// the innermost frame whose file is in the checkout.
func resolveJava(root *os.Root, _ site, p *parsed) {
	t := &tree{root: root}
	if t.walk() != nil {
		return
	}
	byName := map[string][]string{}
	for _, f := range t.files {
		byName[path.Base(f)] = append(byName[path.Base(f)], f)
	}
	for n := range p.cases {
		c := &p.cases[n]
		c.Location = ""
		for _, frame := range c.frames {
			if f := endingIn(byName[path.Base(frame.path)], frame.path); f != "" {
				c.file, c.Location = f, location(f, frame.line)
			}
		}
	}
}

// endingIn is the file whose path ends in p.
func endingIn(files []string, p string) string {
	for _, f := range files {
		if f == p || strings.HasSuffix(f, "/"+p) {
			return f
		}
	}
	return ""
}
