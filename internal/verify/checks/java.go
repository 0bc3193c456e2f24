package checks

import (
	"os"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// planJava builds and tests with Maven or Gradle, whose runners write JUnit reports.
func planJava(t *checkout, p planning) []Job {
	var build, test []Invocation
	for _, dir := range t.projects("pom.xml") {
		build = append(build, maven(dir, p.network, output.FormatExitCode, "test-compile"))
		run := maven(dir, p.network, output.FormatJUnit, "test")
		run.Reports = []string{path.Join(dir, "**/target/surefire-reports/TEST-*.xml"), path.Join(dir, "**/target/failsafe-reports/TEST-*.xml")}
		test = append(test, run)
	}
	if len(build) == 0 {
		for _, dir := range t.projects("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts") {
			build = append(build, gradle(t, dir, p.network, output.FormatExitCode, "testClasses"))
			run := gradle(t, dir, p.network, output.FormatJUnit, "test", "--continue")
			run.Reports = []string{path.Join(dir, "**/build/test-results/**/TEST-*.xml")}
			test = append(test, run)
		}
	}
	if len(build) == 0 {
		return nil
	}
	for n := range test {
		test[n].Audit = resolveJava
	}
	return append([]Job{simpleJob(contract.CategoryBuild, "java", "Java build", build...)},
		shardJobs("java", "Java tests", [][]Invocation{test})...)
}

func maven(dir string, network []string, f output.Format, goal string) Invocation {
	args := []string{"mvn", "--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"}
	if len(network) == 0 {
		args = append(args, "--offline")
	}
	return Invocation{Args: append(args, goal), Dir: dir, Format: f, Network: network}
}

func gradle(t *checkout, dir string, network []string, f output.Format, tasks ...string) Invocation {
	program := []string{"gradle"}
	if t.has(path.Join(dir, "gradlew")) {
		program = []string{"sh", "./gradlew"} // it may not be executable in a checkout
	}
	program = append(program, "--no-daemon", "--console=plain")
	if len(network) == 0 {
		program = append(program, "--offline")
	}
	return Invocation{Args: append(program, tasks...), Dir: dir, Format: f, Network: network}
}

// resolveJava replaces package paths with file paths: each stack is located at its innermost frame
// whose file is in the checkout.
func resolveJava(root *os.Root, _ output.Paths, p *output.Results) {
	t := &checkout{root: root}
	if t.walk() != nil {
		return
	}
	byName := map[string][]string{}
	for _, f := range t.files {
		byName[path.Base(f)] = append(byName[path.Base(f)], f)
	}
	for n := range p.Cases {
		c := &p.Cases[n]
		c.Location = ""
		for _, frame := range c.Frames {
			if f := endingIn(byName[path.Base(frame.Path)], frame.Path); f != "" {
				c.File, c.Location = f, output.Location(f, frame.Line)
			}
		}
	}
}

// endingIn returns the file whose path ends in p.
func endingIn(files []string, p string) string {
	for _, f := range files {
		if f == p || strings.HasSuffix(f, "/"+p) {
			return f
		}
	}
	return ""
}
