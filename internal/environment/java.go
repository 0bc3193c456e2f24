package environment

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// findJava fetches the dependencies of Maven and Gradle projects by building the tests without
// running any: the goals for fetching omit dependencies that plugins request when they run.
func findJava(f *finder) {
	var maven, gradle []string
	for _, dir := range f.t.folders("pom.xml") {
		if f.within(maven, dir) {
			f.input(path.Join(dir, "pom.xml"))
			continue
		}
		maven = append(maven, dir)
		if !f.maven(dir) {
			return
		}
	}
	for _, dir := range f.t.folders("settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts") {
		if f.within(maven, dir) || f.within(gradle, dir) {
			f.input(f.t.first(dir, "build.gradle.kts", "build.gradle"))
			continue
		}
		gradle = append(gradle, dir)
		if !f.gradleProject(dir) {
			return
		}
	}
	if len(maven)+len(gradle) > 0 {
		f.want("java", "", f.r.Projects[len(f.r.Projects)-1].Manifest, nil)
	}
}

// within reports whether a directory is inside one that is already built.
func (f *finder) within(roots []string, dir string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return inside(dir, root) })
}

var javaRelease = regexp.MustCompile(`<(?:maven\.compiler\.(?:release|source)|java\.version)>\s*(?:1\.)?(\d+)\s*<`)

// javaOnline configures Java's proxy, which Java does not read from the usual variables.
const javaOnline = `p="${HTTPS_PROXY:-}"; p="${p#*://}"; p="${p##*@}"; p="${p%%/*}"; [ -z "$p" ] || export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:-} -Dhttp.proxyHost=${p%:*} -Dhttp.proxyPort=${p##*:} -Dhttps.proxyHost=${p%:*} -Dhttps.proxyPort=${p##*:}"; `

func (f *finder) maven(dir string) bool {
	manifest := path.Join(dir, "pom.xml")
	if !f.project(Project{Dir: dir, Ecosystem: "java", Manager: "maven", Manifest: manifest}) {
		return false
	}
	for _, name := range []string{".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml"} {
		f.input(path.Join(dir, name))
	}
	if found := javaRelease.FindStringSubmatch(f.t.text(manifest)); found != nil {
		f.want("java", found[1], manifest, atLeast)
	}
	f.want("maven", "", manifest, nil)
	// Rules about the machine, such as the version of Maven, reject setups that usually work.
	f.set("MAVEN_OPTS", "-Dmaven.repo.local="+home+"/.m2/repository -Denforcer.skip=true")
	// This selects all classes and a method that none of them has: surefire fetches the runner of
	// each module, which it would not do if no class matched, and runs nothing.
	run := "mvn --batch-mode --no-transfer-progress '-Dtest=*#noSuchTest' -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false "
	// Modules that need the archive of another one compile only with it.
	run = firstSuccess(run+"test", run+"--fail-at-end package")
	// Compiled files are deleted, because the classes of a test that a change deletes would still
	// run.
	modules := f.compiled(dir)
	clean := sandbox.Quote(append([]string{"rm", "-rf"}, modules...)...)
	// If one of several modules cannot be built here, the others are still set up.
	optional := dir != "." || len(modules) > 1
	f.command(Command{Dir: dir, Shell: javaOnline + run + "; s=$?; " + clean + "; exit $s", Optional: optional})
	return true
}

// compiled returns the directories into which Maven compiles, relative to dir, except those that
// the repository itself contains.
func (f *finder) compiled(dir string) []string {
	const maxModules = 200
	var out []string
	for _, file := range f.t.below(dir) {
		target := path.Join(path.Dir(file), "target")
		if path.Base(file) == "pom.xml" && !f.t.isDir(target) && len(out) < maxModules {
			out = append(out, "./"+relativeTo(dir, target))
		}
	}
	return out
}

func (f *finder) gradle(dir string) string {
	if f.t.has(path.Join(dir, "gradlew")) {
		return "sh ./gradlew"
	}
	return "gradle"
}

// resolveAll is a script for Gradle with a task that fetches everything that any configuration of
// any project specifies.
const resolveAll = `allprojects { tasks.register("rgptResolve") { doLast { configurations.findAll { it.canBeResolved }.each { try { it.files } catch (Exception e) { logger.warn(e.message) } } } } }`

func (f *finder) gradleProject(dir string) bool {
	manifest := f.t.first(dir, "build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle")
	if !f.project(Project{Dir: dir, Ecosystem: "java", Manager: "gradle", Manifest: manifest, Lock: f.t.first(dir, "gradle.lockfile")}) {
		return false
	}
	for _, name := range []string{"settings.gradle", "settings.gradle.kts", "gradle.properties", "gradle/libs.versions.toml", "gradle/wrapper/gradle-wrapper.properties"} {
		f.input(path.Join(dir, name))
	}
	program := f.gradle(dir)
	if program == "gradle" {
		f.want("gradle", "", manifest, nil)
	}
	f.set("GRADLE_USER_HOME", home+"/.gradle")
	options := " --no-daemon --console=plain "
	script := strings.Join([]string{
		javaOnline + "init=$(mktemp --suffix=.gradle) && printf '%s\n' " + sandbox.Quote(resolveAll) + ` > "$init"`,
		program + options + `--init-script "$init" rgptResolve`,
		program + options + "testClasses",
	}, " && ")
	f.command(Command{Dir: dir, Shell: script, Optional: dir != "."})
	return true
}
