package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Toolchains are the compilers and interpreters of the worker: where they lie
// and what a command needs in its environment to use them without a network.
type Toolchains struct {
	// ReadOnly are host directories to see read-only.
	ReadOnly []string
	// Env has PATH and what each toolchain asks for.
	Env map[string]string
	// Online is what differs for commands with a proxy; "" takes a variable of
	// Env away.
	Online map[string]string
	// Found names them, for reports: "go 1.26.8 at /usr/local/go".
	Found []string
}

// detectTimeout bounds the question to each toolchain.
const detectTimeout = 10 * time.Second

// WithoutModuleCache returns the toolchains without what was downloaded for the
// Go projects of this host: no command can read another repository's private
// modules then, and a project needs its own in a folder vendor.
func (t Toolchains) WithoutModuleCache() Toolchains {
	cache := t.Env["GOMODCACHE"]
	t.ReadOnly = slices.DeleteFunc(slices.Clone(t.ReadOnly), func(dir string) bool { return dir == cache })
	t.Env = maps.Clone(t.Env)
	delete(t.Env, "GOMODCACHE")
	return t
}

// DetectToolchains asks the toolchains in the worker's PATH where they live:
// Go, Node, Python and Rust, however they were installed. It runs them on the
// host, so the worker's PATH must be trustworthy.
func DetectToolchains() Toolchains {
	d := detection{env: map[string]string{}, online: map[string]string{}}
	d.golang()
	d.node()
	d.python()
	d.rust()
	d.java()
	d.env["PATH"] = strings.Join(append(d.bin, defaultPath), ":")
	return Toolchains{ReadOnly: d.paths, Env: d.env, Online: d.online, Found: d.found}
}

type detection struct {
	paths, bin, found []string
	env, online       map[string]string
}

// add makes a directory visible and its programs found. A toolchain that the
// system directories hold needs neither.
func (d *detection) add(name, dir, bin string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || dir == "/" {
		return false
	}
	d.found = append(d.found, name+" at "+dir)
	d.see(dir)
	if bin, err := filepath.EvalSymlinks(bin); err == nil && !slices.Contains(strings.Split(defaultPath, ":"), bin) && !slices.Contains(d.bin, bin) {
		d.bin = append(d.bin, bin)
	}
	return true
}

func (d *detection) see(dir string) {
	if !visibleAnyway(dir) && !slices.Contains(d.paths, dir) {
		d.paths = append(d.paths, dir)
	}
}

// golang gives the module cache read-only. With no proxy a build can use what
// is there and nothing else; the checksum database could not be asked. GOFLAGS
// stays unset: what go.mod, go.work and vendor say is right for a project, and a
// requirement that go.mod lacks must be seen to be lacking.
func (d *detection) golang() {
	var env struct{ GOROOT, GOMODCACHE, GOVERSION, GOPROXY, GOSUMDB, GONOSUMDB, GOPRIVATE string }
	if json.Unmarshal(ask("go", "env", "-json", "GOROOT", "GOMODCACHE", "GOVERSION", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE"), &env) != nil || env.GOROOT == "" {
		return
	}
	if !d.add("go "+strings.TrimPrefix(env.GOVERSION, "go"), env.GOROOT, filepath.Join(env.GOROOT, "bin")) {
		return
	}
	d.env["GOPROXY"] = "off"
	d.env["GOSUMDB"] = "off"
	d.env["GOTOOLCHAIN"] = "local"
	maps.Copy(d.online, map[string]string{
		"GOPROXY": moduleProxies(env.GOPROXY), "GOSUMDB": env.GOSUMDB, "GONOSUMDB": env.GONOSUMDB, "GOPRIVATE": env.GOPRIVATE,
	})
	d.env["GOTELEMETRY"] = "off"
	if cache, err := filepath.EvalSymlinks(env.GOMODCACHE); err == nil {
		d.see(cache)
		d.env["GOMODCACHE"] = cache
	}
}

// moduleProxies are those of the host without direct, which needs git and the
// servers of all the world, and without passwords, which no command may see.
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

// environment is what a command gets of it.
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

func (d *detection) node() {
	program := strings.TrimSpace(string(ask("node", "-p", "process.execPath")))
	if program == "" {
		return
	}
	bin := filepath.Dir(program)
	d.add("node "+strings.TrimSpace(string(ask("node", "-p", "process.versions.node"))), filepath.Dir(bin), bin)
}

// python resolves version managers, whose shims need a home and a shell.
func (d *detection) python() {
	const question = `import sys; print(sys.version.split()[0], sys.base_prefix, sep="\n")`
	answer := strings.Fields(string(ask("python3", "-c", question)))
	if len(answer) == 2 {
		d.add("python "+answer[0], answer[1], filepath.Join(answer[1], "bin"))
	}
}

// rust uses the toolchain itself; rustup's proxies would look for a home.
func (d *detection) rust() {
	root := strings.TrimSpace(string(ask("rustc", "--print", "sysroot")))
	if root != "" && d.add("rust", root, filepath.Join(root, "bin")) {
		d.env["CARGO_NET_OFFLINE"] = "true"
		d.online["CARGO_NET_OFFLINE"] = ""
	}
}

func (d *detection) java() {
	home := os.Getenv("JAVA_HOME")
	if home == "" {
		return
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil && d.add("java", resolved, filepath.Join(resolved, "bin")) {
		d.env["JAVA_HOME"] = resolved
	}
}

// ask runs a toolchain's own program in an empty directory, where no project
// file can redirect it.
func ask(program string, args ...string) []byte {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "rgpt-toolchain-")
	if err != nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), detectTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return out
}

// cacheEnv points build caches to a directory that outlives the command.
func cacheEnv(dir string) map[string]string {
	return map[string]string{
		"GOCACHE":          filepath.Join(dir, "go-build"),
		"npm_config_cache": filepath.Join(dir, "npm"),
		"PIP_CACHE_DIR":    filepath.Join(dir, "pip"),
		"XDG_CACHE_HOME":   filepath.Join(dir, "xdg"),
	}
}
