package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Toolchains are the compilers and interpreters of the worker, and the environment that a command
// needs to use them without a network. In the sandbox, they are at paths that reveal nothing about
// the host, such as /opt/go; toolchains in system directories keep their paths.
type Toolchains struct {
	// Env contains PATH and the variables that each toolchain needs, with sandbox paths.
	Env map[string]string
	// Online contains the variables that differ for commands with a proxy; "" removes a variable of
	// Env.
	Online map[string]string
	// Found lists the toolchains for reports: "go 1.26.8 at /usr/local/go". The paths are host
	// paths.
	Found []string
	// Refused contains the reason for each toolchain that cannot be made visible, or only partly.
	Refused []string
	// Versions are the versions of the tools that commands can use, such as "go": "1.26.8". The
	// names are go, node, npm, python, pip, rust, cargo, java, maven, gradle, make, cmake, gcc,
	// clang and git.
	Versions map[string]string
	// Scanners are the versions of the scanners for vulnerabilities and secrets that checks can use:
	// govulncheck, gitleaks, osv-scanner, cargo-audit, pip-audit.
	Scanners map[string]string

	mounts []mount
}

// detectTimeout limits each query of a toolchain.
const detectTimeout = 10 * time.Second

// toolchainRoot is the sandbox directory of the host's toolchains.
const toolchainRoot = "/opt"

// DetectToolchains queries the locations of the toolchains in the worker's PATH: Go, Node, Python,
// Rust, Java, Maven and Gradle, regardless of how they were installed. It runs them on the host, so
// the worker's PATH must be trustworthy.
func DetectToolchains() Toolchains {
	d := detection{env: map[string]string{}, online: map[string]string{}, answers: loadAnswers()}
	versions := make(chan map[string]string, 1)
	go func() { versions <- d.askVersions() }()
	d.golang()
	d.node()
	d.python()
	d.rust()
	d.java()
	d.home("maven", "mvn", "lib/maven-core-*.jar")
	d.home("gradle", "gradle", "lib/gradle-launcher-*.jar", "lib/gradle-cli-*.jar")
	d.hidePackages()
	scanners := d.scan()
	d.env["PATH"] = strings.Join(append(d.bin, defaultPath), ":")
	found := <-versions
	d.save()
	for _, name := range d.hidden {
		delete(found, name)
	}
	return Toolchains{Env: d.env, Online: d.online, Found: d.found, Refused: d.refused, Versions: found, Scanners: scanners, mounts: d.mounts}
}

type detection struct {
	*answers
	mounts              []mount
	bin, found, refused []string
	hidden              []string // names of refused tools
	env, online         map[string]string
	pythonVersion       string // 3.11; empty if commands have no Python
}

// refuse excludes a tool.
func (d *detection) refuse(name, reason string) {
	d.hidden = append(d.hidden, name)
	d.refused = append(d.refused, name+" is not available to commands: "+reason)
}

// add makes a directory visible and its programs available, and returns its path in the sandbox, or
// "" if it must not be visible. A toolchain in the system directories keeps its path.
func (d *detection) add(name, version, dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || dir == "/" {
		return ""
	}
	if reason := exposes(dir, ""); reason != "" {
		d.refuse(name, "its directory is "+dir+", and "+reason)
		return ""
	}
	d.found = append(d.found, strings.TrimSpace(name+" "+version)+" at "+dir)
	inside := dir
	if !visibleAnyway(dir) {
		inside = filepath.Join(toolchainRoot, name)
		d.mounts = append(d.mounts, mount{Kind: mountReadOnly, Source: dir, Target: inside})
	}
	d.addBin(filepath.Join(inside, "bin"))
	return inside
}

func (d *detection) addBin(bin string) {
	if visibleAnyway(bin) {
		if resolved, err := filepath.EvalSymlinks(bin); err == nil {
			bin = resolved
		}
	}
	if !slices.Contains(strings.Split(defaultPath, ":"), bin) && !slices.Contains(d.bin, bin) {
		d.bin = append(d.bin, bin)
	}
}

// exposes returns the reason why a directory must not be visible to commands, or "": it contains
// the keys of the worker's user or the data of other runs.
func exposes(path, dataDir string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	holds := func(dir string) bool {
		if dir == "" {
			return false
		}
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			resolved = filepath.Clean(dir)
		}
		return resolved != "/" && within(resolved, path)
	}
	for _, home := range homes() {
		if holds(home) {
			return "it contains the home directory " + home
		}
	}
	if holds(dataDir) {
		return "it contains the data folder " + dataDir
	}
	return ""
}

// homes are directories that no command may see as a whole.
func homes() []string {
	homes := []string{"/root", "/home", os.Getenv("HOME")}
	if u, err := user.Current(); err == nil {
		homes = append(homes, u.HomeDir)
	}
	return homes
}

// golang adds Go. Without a proxy, a build can use only existing modules and cannot reach the
// checksum database. GOFLAGS stays unset: go.mod, go.work and vendor determine the mode of a
// project, and a requirement missing in go.mod must cause an error.
func (d *detection) golang() {
	var env struct{ GOROOT, GOVERSION, GOPROXY, GOSUMDB, GONOSUMDB, GOPRIVATE string }
	if json.Unmarshal(d.ask("go", "env", "-json", "GOROOT", "GOVERSION", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE"), &env) != nil || env.GOROOT == "" {
		return
	}
	if d.add("go", strings.TrimPrefix(env.GOVERSION, "go"), env.GOROOT) == "" {
		return
	}
	d.env["GOPROXY"] = "off"
	d.env["GOSUMDB"] = "off"
	d.env["GOTOOLCHAIN"] = "local"
	maps.Copy(d.online, map[string]string{
		"GOPROXY": moduleProxies(env.GOPROXY), "GOSUMDB": env.GOSUMDB, "GONOSUMDB": env.GONOSUMDB, "GOPRIVATE": env.GOPRIVATE,
	})
	d.env["GOTELEMETRY"] = "off"
}

// moduleProxies returns the host's module proxies without direct, which needs git and access to
// arbitrary servers, and without passwords, which no command may see.
func moduleProxies(host string) string {
	var out strings.Builder
	for rest := host; rest != ""; {
		end := strings.IndexAny(rest, ",|")
		if end < 0 {
			end = len(rest)
		}
		entry := strings.TrimSpace(rest[:end])
		separator := rest[end:min(end+1, len(rest))]
		rest = rest[end+len(separator):]
		if entry == "" || entry == "direct" {
			continue
		}
		if u, err := url.Parse(entry); err == nil && u.User != nil {
			u.User = nil
			entry = u.String()
		}
		out.WriteString(entry + separator)
	}
	return cmp.Or(strings.TrimRight(out.String(), ",|"), "https://proxy.golang.org")
}

// environment returns the variables for a command.
func (t Toolchains) environment(online bool) map[string]string {
	env := maps.Clone(t.Env)
	if env == nil {
		env = map[string]string{}
	}
	if online {
		maps.Copy(env, t.Online)
		maps.DeleteFunc(env, func(name, value string) bool {
			_, listed := t.Online[name]
			return listed && value == ""
		})
	}
	return env
}

// node makes the parent of the program's directory visible only if it belongs to node alone; if the
// program is among others, such as in ~/bin, it makes only the program visible.
func (d *detection) node() {
	answer := strings.Fields(string(d.ask("node", "-p", `process.execPath + "\n" + process.versions.node`)))
	if len(answer) != 2 {
		return
	}
	program, version := answer[0], answer[1]
	dir := filepath.Dir(filepath.Dir(program))
	_, err := os.Stat(filepath.Join(dir, "lib", "node_modules", "npm"))
	if visibleAnyway(program) || err == nil && filepath.Base(filepath.Dir(program)) == "bin" && exposes(dir, "") == "" {
		d.add("node", version, dir)
		return
	}
	program, err = filepath.EvalSymlinks(program)
	if err != nil {
		return
	}
	bin := filepath.Join(toolchainRoot, "node", "bin")
	d.mounts = append(d.mounts, mount{Kind: mountReadOnly, Source: program, Target: filepath.Join(bin, "node")})
	d.bin = append(d.bin, bin)
	d.found = append(d.found, "node "+version+" at "+program)
	d.refuse("npm", "node is at "+program+", in a directory shared with other programs")
}

// python bypasses version managers, whose shims need a home and a shell.
func (d *detection) python() {
	const question = `import sys, sysconfig; print(sys.version.split()[0], sys.base_prefix, sysconfig.get_path("purelib"), "%d.%d" % sys.version_info[:2], sep="\n")`
	answer := strings.Split(strings.TrimSpace(string(d.ask("python3", "-c", question))), "\n")
	if len(answer) != 4 {
		return
	}
	prefix, err := filepath.EvalSymlinks(answer[1])
	if err != nil {
		return
	}
	inside := d.add("python", answer[0], prefix)
	if inside != "" {
		d.pythonVersion = answer[3]
	}
	if inside == "" || inside == prefix {
		return
	}
	d.env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
	d.onlyInterpreter(prefix, inside, answer[3])
}

// onlyInterpreter keeps only the interpreter in bin: the scripts next to it belong to packages of
// the host and begin with the interpreter's host path.
func (d *detection) onlyInterpreter(prefix, inside, version string) {
	bin := filepath.Join(inside, "bin")
	d.mounts = append(d.mounts, mount{Kind: mountEmpty, Target: bin})
	name := "python" + version
	program, err := filepath.EvalSymlinks(filepath.Join(prefix, "bin", name))
	if err != nil {
		return
	}
	if data := relinked(program, filepath.Join(prefix, "lib"), filepath.Join(inside, "lib")); data != nil {
		d.mounts = append(d.mounts, mount{Kind: mountProgram, Target: filepath.Join(bin, name), Data: data})
	} else {
		d.mounts = append(d.mounts, mount{Kind: mountReadOnly, Source: program, Target: filepath.Join(bin, name)})
	}
	for _, link := range []string{"python", "python3"} {
		d.mounts = append(d.mounts, mount{Kind: mountSymlink, Source: name, Target: filepath.Join(bin, link)})
	}
	// The location that python reports to builds of extensions.
	for _, pattern := range []string{"lib/python" + version + "/_sysconfigdata_*.py", "lib/python" + version + "/config-*/Makefile", "lib/pkgconfig/python*.pc"} {
		d.rewrite(prefix, inside, pattern)
	}
	const pip = "#!/bin/sh\nexec %s/python3 -m pip \"$@\"\n"
	for _, name := range []string{"pip", "pip3"} {
		d.mounts = append(d.mounts, mount{Kind: mountProgram, Target: filepath.Join(bin, name), Data: []byte(strings.Replace(pip, "%s", bin, 1))})
	}
	d.hideIn(filepath.Join(prefix, "lib", "python"+version, "site-packages"), filepath.Join(inside, "lib", "python"+version, "site-packages"))
}

// rewrittenBytes limits a file in which the location of a toolchain is replaced.
const rewrittenBytes = 1 << 20

// rewrite replaces the location of a toolchain in its own files.
func (d *detection) rewrite(prefix, inside, pattern string) {
	files, _ := filepath.Glob(filepath.Join(prefix, pattern))
	for _, file := range files {
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > rewrittenBytes {
			continue
		}
		data, err := os.ReadFile(file)
		rel, relErr := filepath.Rel(prefix, file)
		if err == nil && relErr == nil && bytes.Contains(data, []byte(prefix)) {
			d.mounts = append(d.mounts, mount{Kind: mountOver, Target: filepath.Join(inside, rel), Data: bytes.ReplaceAll(data, []byte(prefix), []byte(inside))})
		}
	}
}

// relinkedBytes limits the size of a program that is changed: a small program that only calls its
// library.
const relinkedBytes = 1 << 20

// relinked returns a copy of a small program that finds its libraries at another location, or nil
// if the program specifies no location. Without it, an interpreter built with a shared library
// would find no library or another version's library.
func relinked(program, from, to string) []byte {
	info, err := os.Stat(program)
	if err != nil || info.Size() > relinkedBytes || len(to) > len(from) {
		return nil
	}
	file, err := elf.Open(program)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	asks := false
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := file.DynString(tag)
		asks = asks || err == nil && slices.Contains(paths, from)
	}
	if !asks {
		return nil
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil
	}
	padded := append([]byte(to), make([]byte, len(from)-len(to)+1)...)
	return bytes.ReplaceAll(data, append([]byte(from), 0), padded)
}

// packageDirs are the directories in which the system's interpreters search for packages.
var packageDirs = []string{
	"/usr/lib/python3/dist-packages", "/usr/lib/python3.*/site-packages", "/usr/lib64/python3.*/site-packages",
	"/usr/local/lib/python3.*/dist-packages", "/usr/local/lib/python3.*/site-packages", "/usr/local/lib64/python3.*/site-packages",
}

// packageTools are the packages that python itself includes, and the package installers.
var packageTools = regexp.MustCompile(`^(pip|setuptools|wheel|pkg_resources|_distutils_hack|distutils-precedence\.pth)($|-[0-9].*\.(dist|egg)-info$)`)

// hidePackages hides packages installed on the host: a project that needs them would pass here and
// fail elsewhere.
func (d *detection) hidePackages() {
	for _, pattern := range packageDirs {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() {
				d.hideIn(dir, dir)
			}
		}
	}
}

// packagesInside is the sandbox directory in which the directories of hideIn stay visible.
const packagesInside = "/run/sandbox/packages"

// hideIn replaces a directory of packages by links to packageTools: a mount for each of them would
// slow down the start of every command.
func (d *detection) hideIn(dir, inside string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	d.mounts = append(d.mounts, mount{Kind: mountEmpty, Target: inside})
	shown := filepath.Join(packagesInside, inside)
	var links []mount
	for _, entry := range entries {
		if packageTools.MatchString(entry.Name()) && entry.Type()&os.ModeSymlink == 0 {
			links = append(links, mount{Kind: mountSymlink, Source: filepath.Join(shown, entry.Name()), Target: filepath.Join(inside, entry.Name())})
		}
	}
	if len(links) > 0 {
		d.mounts = append(append(d.mounts, links...), mount{Kind: mountReadOnly, Source: dir, Target: shown})
	}
}

// rust uses the toolchain itself; rustup's proxies need a home directory.
func (d *detection) rust() {
	root := strings.TrimSpace(string(d.ask("rustc", "--print", "sysroot")))
	if root != "" && d.add("rust", "", root) != "" {
		d.env["CARGO_NET_OFFLINE"] = "true"
		d.online["CARGO_NET_OFFLINE"] = ""
	}
}

func (d *detection) java() {
	home := os.Getenv("JAVA_HOME")
	if home == "" {
		// Two levels below its home, after resolving all links.
		program := resolve("javac")
		if program == "" {
			program = resolve("java")
		}
		if program == "" || filepath.Base(filepath.Dir(program)) != "bin" {
			return
		}
		home = filepath.Dir(filepath.Dir(program))
	}
	if _, err := os.Stat(filepath.Join(home, "bin", "java")); err != nil {
		return
	}
	if inside := d.add("java", "", home); inside != "" {
		d.env["JAVA_HOME"] = inside
	}
}

// home adds a tool with its own directory, recognized by one of several files in it. A tool among
// others, such as a wrapper in ~/bin, is excluded.
func (d *detection) home(name, program string, proofs ...string) {
	path := resolve(program)
	if path == "" {
		return
	}
	dir := filepath.Dir(filepath.Dir(path))
	for _, proof := range proofs {
		if files, _ := filepath.Glob(filepath.Join(dir, proof)); len(files) > 0 {
			d.add(name, "", dir)
			return
		}
	}
	if !visibleAnyway(path) {
		d.refuse(name, path+" is not in a directory of its own")
	}
}

// resolve returns the real path of a program in the PATH, or "".
func resolve(program string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return ""
	}
	return path
}

// versionQuestions are the commands that print the versions of tools.
var versionQuestions = map[string][]string{
	"go":     {"go", "version"},
	"node":   {"node", "--version"},
	"npm":    {"npm", "--version"},
	"python": {"python3", "--version"},
	"pip":    {"python3", "-m", "pip", "--version"},
	"rust":   {"rustc", "--version"},
	"cargo":  {"cargo", "--version"},
	"java":   {"java", "-version"},
	"maven":  {"mvn", "--version"},
	"gradle": {"gradle", "--version"},
	"make":   {"make", "--version"},
	"cmake":  {"cmake", "--version"},
	"gcc":    {"gcc", "-dumpfullversion"},
	"clang":  {"clang", "--version"},
	"git":    {"git", "--version"},
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+[0-9A-Za-z.+-]*|\b\d+\b`)

// askVersions queries several tools in parallel: some take half a second.
func (a *answers) askVersions() map[string]string {
	const atOnce = 4
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	versions := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(versionQuestions)) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			question := versionQuestions[name]
			if version := versionNumber.FindString(string(a.askAll(question[0], question[1:]...))); version != "" {
				mu.Lock()
				versions[name] = version
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return versions
}

// runQuestion runs a program in an empty directory, where no project file can redirect it.
func runQuestion(output func(*exec.Cmd) ([]byte, error), path string, args []string) []byte {
	dir, err := os.MkdirTemp("", "rgpt-toolchain-")
	if err != nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), detectTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	out, err := output(cmd)
	if err != nil {
		return nil
	}
	return out
}

// cacheInside is the path of Options.CacheDir in the sandbox.
const cacheInside = "/var/cache/sandbox"

// cacheEnv points build caches to a directory that outlives the command.
func cacheEnv(dir string) map[string]string {
	return map[string]string{
		"GOCACHE":          filepath.Join(dir, "go-build"),
		"npm_config_cache": filepath.Join(dir, "npm"),
		"PIP_CACHE_DIR":    filepath.Join(dir, "pip"),
		"XDG_CACHE_HOME":   filepath.Join(dir, "xdg"),
	}
}
