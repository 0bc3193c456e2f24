package refactor

import (
	"context"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// The limits of the search for the entries of packages.
const (
	maxEntries = 200       // modules that an entry leads to
	maxModule  = 256 << 10 // bytes of one of them, or of a manifest
)

// reach knows which files of a repository other repositories can use.
type reach struct {
	ctx     context.Context
	tree    change.Tree
	files   map[string]bool
	folders map[string][]string
	modules bool                       // there is a go.mod
	js      map[string]map[string]bool // by the folder of a package: "module name", with * for all
	err     error
}

func newReach(ctx context.Context, tree change.Tree) *reach {
	return &reach{ctx: ctx, tree: tree, js: map[string]map[string]bool{}}
}

// list lists the tree once.
func (r *reach) list() error {
	if r.files != nil || r.err != nil || r.tree == nil {
		return r.err
	}
	all, err := r.tree.Paths(r.ctx)
	if err != nil {
		r.err = err
		return err
	}
	r.files, r.folders = make(map[string]bool, len(all)), map[string][]string{}
	for _, p := range all {
		r.files[p] = true
		r.modules = r.modules || path.Base(p) == "go.mod"
		r.folders[path.Dir(p)] = append(r.folders[path.Dir(p)], p)
	}
	return nil
}

// folder returns the files of a folder before the change.
func (r *reach) folder(dir string) ([]string, error) {
	if err := r.list(); err != nil {
		return nil, err
	}
	return r.folders[dir], nil
}

// above returns the first folder, from that of a file upwards, with a file that matches. ok is false if
// there is none.
func (r *reach) above(p string, match func(name string) bool) (dir, found string, ok bool) {
	for dir = path.Dir(p); ; dir = path.Dir(dir) {
		for _, f := range r.folders[dir] {
			if match(path.Base(f)) {
				return dir, f, true
			}
		}
		if dir == "." || dir == "/" {
			return "", "", false
		}
	}
}

func anyOf(names ...string) func(string) bool {
	return func(n string) bool { return slices.Contains(names, n) }
}

func ending(ends ...string) func(string) bool {
	return func(n string) bool {
		return slices.ContainsFunc(ends, func(e string) bool { return strings.HasSuffix(n, e) })
	}
}

func (r *reach) read(p string) string {
	content, ok, err := r.tree.Read(r.ctx, p, maxModule)
	if err != nil || !ok {
		return ""
	}
	return string(content)
}

// reachable reports whether other repositories can use a symbol of the old version.
func (r *reach) reachable(x symbol) bool {
	if r.list() != nil || r.files == nil {
		return true
	}
	ok := true
	switch languageOf(x.path) {
	case "":
		_, _, ok = r.above(x.path, anyOf("go.mod"))
		ok = ok || !r.modules // without modules, any package can be imported by its path
	case "python":
		return r.python(x)
	case "javascript":
		return r.javascript(x)
	case "rust":
		return r.rust(x)
	case "java", "kotlin":
		_, _, ok = r.above(x.path, ending("pom.xml", ".gradle", ".gradle.kts", "BUILD.bazel"))
		ok = ok && !strings.Contains(x.path, "/internal/") && !strings.Contains(x.path, "/impl/")
	case "csharp":
		_, _, ok = r.above(x.path, ending(".csproj"))
		ok = ok && !strings.Contains(x.path, "/Internal/")
	case "php":
		_, _, ok = r.above(x.path, anyOf("composer.json"))
	case "ruby":
		_, _, ok = r.above(x.path, ending(".gemspec"))
		ok = ok && strings.Contains("/"+x.path, "/lib/")
	}
	return ok
}

func (r *reach) python(x symbol) bool {
	if _, _, ok := r.above(x.path, anyOf("pyproject.toml", "setup.py", "setup.cfg")); !ok {
		return false
	}
	for _, part := range strings.Split(moduleOf(x.path), "/") {
		if strings.HasPrefix(part, "_") || part == "internal" || part == "internals" || part == "vendored" || part == "management" {
			return false
		}
	}
	dir := path.Dir(x.path)
	return dir == "." || dir == "src" || r.files[dir+"/__init__.py"]
}

// rust follows the declarations of modules from the root of the crate. A module that is not public has
// what the modules around it pass on by name.
func (r *reach) rust(x symbol) bool {
	dir, manifest, ok := r.above(x.path, anyOf("Cargo.toml"))
	text := r.read(manifest)
	if !ok || privateCrate.MatchString(text) {
		return false
	}
	root := path.Join(dir, "src")
	if !r.files[root+"/lib.rs"] {
		return false
	}
	inner, ok := strings.CutPrefix(moduleOf(x.path), root+"/")
	if !ok {
		return false
	}
	if inner == "lib" {
		return true
	}
	parts := strings.Split(inner, "/")
	if parts[0] == "main" || parts[0] == "bin" || len(parts) > 20 {
		return false
	}
	public := true
	for i := range parts {
		parent := r.read(r.rustModule(root, parts[:i]))
		if passesOn(parent, x.name, parts[i]) {
			return true // up to a module that is known to be public, or nearly so
		}
		public = public && regexp.MustCompile(`(?m)^\s*pub\s+mod\s+`+regexp.QuoteMeta(parts[i])+`\b`).MatchString(parent)
	}
	return public
}

var privateCrate = regexp.MustCompile(`(?m)^\s*publish\s*=\s*(false|\[\s*\])`)

func (r *reach) rustModule(root string, parts []string) string {
	if len(parts) == 0 {
		return root + "/lib.rs"
	}
	p := root + "/" + strings.Join(parts, "/")
	if r.files[p+".rs"] {
		return p + ".rs"
	}
	return p + "/mod.rs"
}

// passesOn reports whether a module exports a name, or all names, of one of its modules.
func passesOn(text, name, module string) bool {
	for _, m := range rustUse.FindAllStringSubmatch(text, -1) {
		words := wordPattern.FindAllString(m[1], -1)
		if slices.Contains(words, name) || slices.Contains(words, module) && strings.Contains(m[1], "*") {
			return true
		}
	}
	return false
}

// javascript follows the exports of a package from its entries.
func (r *reach) javascript(x symbol) bool {
	dir, manifest, ok := r.above(x.path, anyOf("package.json"))
	if !ok {
		return false
	}
	if r.js[dir] == nil {
		r.js[dir] = r.exportsOf(dir, r.read(manifest))
	}
	return r.js[dir][moduleOf(x.path)+" *"] || r.js[dir][moduleOf(x.path)+" "+x.name] || x.parent != "" && r.js[dir][moduleOf(x.path)+" "+x.parent]
}

// exportsOf returns the exported names of the modules of a package, as "module name", with * for all.
func (r *reach) exportsOf(dir, manifest string) map[string]bool {
	out := map[string]bool{}
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(manifest), &m) != nil || string(m["private"]) == "true" {
		return out
	}
	var queue []string
	visit := func(module, name string) {
		if key := module + " " + name; !out[key] && len(queue) < maxEntries {
			out[key] = true
			queue = append(queue, module)
		}
	}
	published := false
	for _, field := range []string{"main", "module", "types", "typings", "exports", "browser"} {
		for _, e := range stringWordAny.FindAllStringSubmatch(string(m[field]), -1) {
			published = true
			p := path.Join(dir, e[1])
			visit(moduleOf(p), "*")
			for _, built := range []string{"/dist/", "/lib/", "/build/", "/out/", "/es/", "/esm/", "/cjs/"} {
				if strings.Contains("/"+p, built) {
					visit(strings.TrimPrefix(moduleOf(strings.Replace("/"+p, built, "/src/", 1)), "/"), "*")
				}
			}
		}
	}
	if published || m["name"] != nil {
		for _, p := range []string{"index", "src/index", "lib/index", "src/main", "src"} {
			visit(moduleOf(path.Join(dir, p)), "*")
		}
	}
	for i := 0; i < len(queue) && i < maxEntries; i++ {
		r.follow(queue[i], visit)
	}
	return out
}

var (
	stringWordAny = regexp.MustCompile(`"(\.?[\w@./-]+\.[cm]?[jt]sx?)"`)
	fromModule    = regexp.MustCompile(`(?m)^\s*export\s+(?:type\s+)?(\*|\{[^}]*\})(?:\s+as\s+\w+)?\s+from\s+['"](\.[^'"\n]*)['"]`)
	requires      = regexp.MustCompile(`exports(?:\.\w+)?\s*=\s*require\(['"](\.[^'"\n]*)['"]\)|=>\s*require\(['"](\.[^'"\n]*)['"]\)`)
	imports       = regexp.MustCompile(`(?m)^\s*import\s+(?:type\s+)?(?:\*\s+as\s+)?([\w$,{}\s]+?)\s+from\s+['"](\.[^'"\n]*)['"]`)
)

// follow visits the modules that a module passes on.
func (r *reach) follow(module string, visit func(module, name string)) {
	file := ""
	for _, end := range []string{".ts", ".tsx", ".js", ".mjs", ".jsx", ".cjs", ".mts", "/index.ts", "/index.tsx", "/index.js", "/index.mjs"} {
		if r.files[module+end] {
			file = module + end
			break
		}
	}
	if file == "" {
		return
	}
	text := r.read(file)
	at := func(from string) string {
		from = strings.TrimSuffix(from, "/")
		p := path.Join(path.Dir(file), from)
		switch path.Ext(p) {
		case ".js", ".ts", ".mjs", ".cjs", ".tsx", ".jsx":
			return moduleOf(p)
		}
		return moduleOf(p + ".x")
	}
	for _, m := range fromModule.FindAllStringSubmatch(text, -1) {
		if m[1] == "*" {
			visit(at(m[2]), "*")
			continue
		}
		for _, n := range wordPattern.FindAllString(m[1], -1) {
			visit(at(m[2]), n)
		}
	}
	for _, m := range requires.FindAllStringSubmatch(text, -1) {
		visit(at(m[1]+m[2]), "*")
	}
	passed := map[string]bool{}
	for _, m := range exportList.FindAllStringSubmatch(text, -1) {
		for _, n := range wordPattern.FindAllString(m[1], -1) {
			passed[n] = true
		}
	}
	for _, m := range imports.FindAllStringSubmatch(text, -1) {
		for _, n := range wordPattern.FindAllString(m[1], -1) {
			if passed[n] {
				visit(at(m[2]), n)
			}
		}
	}
}
