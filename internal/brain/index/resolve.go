package index

import (
	"path"
	"slices"
	"strings"
)

const (
	// maxTargets is the number of files that one import may mean, such as those of a package.
	maxTargets = 20
	// maxEdges is the number of files that a file imports.
	maxEdges = 200
	// maxRoots is the number of directories in which a name is looked for.
	maxRoots = 20
)

// resolver finds the files of a tree that an import means, from the paths of the files and the
// packages that they declare. It knows no build system: it follows the languages' conventions.
type resolver struct {
	paths  []string
	metas  []meta
	byPath map[string]uint32
	// dirs has the files of each directory, for languages whose packages are directories.
	dirs map[string][]uint32
	// packages has the files of each declared package: Java, Kotlin, C#, PHP.
	packages map[string][]uint32
	// classes has the file of each class in a package.
	classes map[string]uint32
	// modules has the directory of each module with a manifest: Go, JavaScript, Rust.
	modules map[string]string
	// named has the files of each base name: C, Ruby.
	named map[string][]uint32
	// pythonRoots has the directories in which a top-level module or package is.
	pythonRoots map[string][]string
	targets     []uint32
}

func newResolver(paths []string, metas []meta) *resolver {
	r := &resolver{
		paths: paths, metas: metas, byPath: make(map[string]uint32, len(paths)), dirs: map[string][]uint32{}, packages: map[string][]uint32{},
		classes: map[string]uint32{}, modules: map[string]string{}, named: map[string][]uint32{}, pythonRoots: map[string][]string{},
	}
	for i, p := range paths {
		r.byPath[p] = uint32(i)
	}
	for i, p := range paths {
		r.learn(uint32(i), p, metas[i])
	}
	return r
}

// learn records what a file says about the names of others.
func (r *resolver) learn(doc uint32, p string, m meta) {
	dir, base := path.Split(p)
	dir = strings.TrimSuffix(dir, "/")
	switch m.lang {
	case "go":
		if !strings.HasSuffix(base, "_test.go") {
			r.dirs[dir] = append(r.dirs[dir], doc)
		}
	case "gomod", "json", "toml":
		if name := m.pkg; name != "" {
			if base == "Cargo.toml" {
				name = "rust:" + strings.ReplaceAll(name, "-", "_")
			}
			if _, twice := r.modules[name]; !twice {
				r.modules[name] = dir
			}
		}
	case "java", "kotlin", "scala":
		r.packages[m.pkg] = append(r.packages[m.pkg], doc)
		r.classes[m.pkg+"."+strings.TrimSuffix(base, path.Ext(base))] = doc
	case "csharp":
		r.packages[m.pkg] = append(r.packages[m.pkg], doc)
	case "php":
		r.classes[strings.ReplaceAll(m.pkg, `\`, ".")+"."+strings.TrimSuffix(base, ".php")] = doc
	case "c", "cpp", "objc", "ruby":
		r.named[base] = append(r.named[base], doc)
	case "python":
		r.learnPython(dir, base)
	}
}

func (r *resolver) learnPython(dir, base string) {
	top, root := strings.TrimSuffix(base, path.Ext(base)), dir
	if _, ok := r.byPath[join(dir, "__init__.py")]; ok {
		if base != "__init__.py" {
			return
		}
		up := path.Dir(dir)
		if up == "." {
			up = ""
		}
		if _, ok := r.byPath[join(up, "__init__.py")]; ok || dir == "" {
			return
		}
		top, root = path.Base(dir), up
	}
	if roots := r.pythonRoots[top]; len(roots) < maxRoots && !slices.Contains(roots, root) {
		r.pythonRoots[top] = append(roots, root)
	}
}

func join(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	return dir + "/" + name
}

// imports returns the files that a file imports, ascending.
func (r *resolver) imports(doc uint32) []uint32 {
	m := r.metas[doc]
	if len(m.imports) == 0 {
		return nil
	}
	r.targets = r.targets[:0]
	for _, name := range m.imports {
		if len(r.targets) >= maxEdges {
			break
		}
		r.resolve(doc, m, name)
	}
	slices.Sort(r.targets)
	out := slices.DeleteFunc(slices.Clone(slices.Compact(r.targets)), func(d uint32) bool { return d == doc })
	return out[:min(len(out), maxEdges)]
}

func (r *resolver) resolve(doc uint32, m meta, name string) {
	p := r.paths[doc]
	dir := path.Dir(p)
	switch m.lang {
	case "go":
		r.golang(name)
	case "javascript", "typescript", "vue", "svelte":
		r.javascript(dir, name)
	case "python":
		r.python(dir, name)
	case "java", "kotlin", "scala":
		r.java(name)
	case "csharp":
		r.add(r.packages[name]...)
	case "php":
		if doc, ok := r.classes[strings.ReplaceAll(name, `\`, ".")]; ok {
			r.add(doc)
		} else if strings.HasSuffix(name, ".php") {
			r.file(path.Join(dir, strings.TrimPrefix(name, "/")))
		}
	case "rust":
		r.rust(p, dir, name)
	case "c", "cpp", "objc":
		if !r.file(path.Join(dir, name)) {
			r.suffix(name)
		}
	case "ruby":
		if rel, ok := strings.CutPrefix(name, "./"); ok {
			_ = r.file(path.Join(dir, rel)+".rb") || r.file(path.Join(dir, rel))
		} else {
			r.suffix(name + ".rb")
		}
	case "shell":
		_ = r.file(path.Join(dir, name)) || r.file(path.Clean(name))
	}
}

func (r *resolver) add(docs ...uint32) {
	r.targets = append(r.targets, docs[:min(len(docs), maxTargets)]...)
}

// file adds a file, if the tree has it.
func (r *resolver) file(p string) bool {
	doc, ok := r.byPath[p]
	if ok {
		r.add(doc)
	}
	return ok
}

// suffix adds the files whose path ends with a name.
func (r *resolver) suffix(name string) {
	name = path.Clean("/" + name)
	n := 0
	for _, doc := range r.named[path.Base(name)] {
		if strings.HasSuffix("/"+r.paths[doc], name) {
			r.add(doc)
			if n++; n == maxTargets {
				return
			}
		}
	}
}

// golang adds the files of a package.
func (r *resolver) golang(name string) {
	for module := name; ; {
		if root, ok := r.modules[module]; ok {
			r.add(r.dirs[join(root, strings.TrimPrefix(strings.TrimPrefix(name, module), "/"))]...)
			return
		}
		i := strings.LastIndexByte(module, '/')
		if i < 0 {
			return
		}
		module = module[:i]
	}
}

var scriptEndings = []string{"", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte", ".d.ts", ".mts", "/index.ts", "/index.tsx", "/index.js", "/index.jsx", "/index.mjs", "/index.vue"}

// script adds a module of JavaScript or TypeScript by its path without an ending.
func (r *resolver) script(p string) bool {
	p = strings.TrimSuffix(p, "/")
	for _, ending := range scriptEndings {
		if r.file(p + ending) {
			return true
		}
	}
	if stem, ok := strings.CutSuffix(p, ".js"); ok { // TypeScript imports the compiled name
		return r.file(stem+".ts") || r.file(stem+".tsx")
	}
	return false
}

func (r *resolver) javascript(dir, name string) {
	name, _, _ = strings.Cut(name, "?")
	if strings.HasPrefix(name, ".") {
		r.script(path.Join(dir, name))
		return
	}
	for _, alias := range []string{"@/", "~/", "src/", "$lib/", "/"} {
		if rest, ok := strings.CutPrefix(name, alias); ok {
			if alias == "$lib/" {
				rest = "lib/" + rest
			}
			for up := dir; ; up = path.Dir(up) {
				if r.script(path.Join(up, "src", rest)) || r.script(path.Join(up, rest)) || up == "." || up == "/" {
					return
				}
			}
		}
	}
	// A package of the same repository.
	parts := strings.SplitN(name, "/", 3)
	n := 1
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		n = 2
	}
	root, ok := r.modules[strings.Join(parts[:n], "/")]
	if !ok {
		return
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, strings.Join(parts[:n], "/")), "/")
	if rest == "" {
		_ = r.script(join(root, "src")) || r.script(join(root, "index")) || r.script(join(root, "lib"))
		return
	}
	_ = r.script(join(root, rest)) || r.script(join(root, "src/"+rest))
}

func (r *resolver) python(dir, name string) {
	if strings.HasPrefix(name, ".") {
		rest := strings.TrimLeft(name, ".")
		for range len(name) - len(rest) - 1 {
			dir = path.Dir(dir)
		}
		if dir == "." {
			dir = ""
		}
		r.pythonModule(dir, rest)
		return
	}
	top, _, _ := strings.Cut(name, ".")
	for _, root := range r.pythonRoots[top] {
		if r.pythonModule(root, name) {
			return
		}
	}
}

// pythonModule adds a module in a directory, or the one that defines the last part of the name.
func (r *resolver) pythonModule(root, name string) bool {
	if name == "" {
		return r.file(join(root, "__init__.py"))
	}
	p := join(root, strings.ReplaceAll(name, ".", "/"))
	if r.file(p+".py") || r.file(p+"/__init__.py") || r.file(p+".pyi") {
		return true
	}
	up := path.Dir(p)
	if up == "." {
		return r.file("__init__.py")
	}
	return len(up) >= len(root) && (r.file(up+".py") || r.file(up+"/__init__.py"))
}

// java adds a class, the class that contains a nested one or a static member, or a package.
func (r *resolver) java(name string) {
	if pkg, ok := strings.CutSuffix(name, ".*"); ok {
		if docs, ok := r.packages[pkg]; ok {
			r.add(docs...)
			return
		}
		name = pkg
	}
	for range 3 {
		if doc, ok := r.classes[name]; ok {
			r.add(doc)
			return
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return
		}
		name = name[:i]
	}
}

// rust adds the file of a module.
func (r *resolver) rust(p, dir, name string) {
	base := path.Base(p)
	if stem := strings.TrimSuffix(base, ".rs"); stem != "mod" && stem != "lib" && stem != "main" {
		dir = path.Join(dir, stem)
	}
	if module, ok := strings.CutPrefix(name, "mod "); ok {
		_ = r.rustModule(dir, module) || r.rustModule(path.Dir(p), module)
		return
	}
	parts := strings.Split(name, "::")
	switch parts[0] {
	case "crate":
		dir = r.crate(p)
	case "self":
	case "super":
		for len(parts) > 1 && parts[1] == "super" {
			dir, parts = path.Dir(dir), parts[1:]
		}
		dir = path.Dir(dir)
	default:
		root, ok := r.modules["rust:"+parts[0]]
		if !ok {
			return
		}
		if dir = join(root, "src"); len(parts) == 1 {
			r.file(join(dir, "lib.rs"))
			return
		}
	}
	for n := len(parts); n > 1; n-- {
		if r.rustModule(dir, strings.Join(parts[1:n], "/")) {
			return
		}
	}
	_ = r.file(join(dir, "lib.rs")) || r.file(join(dir, "mod.rs")) || r.file(dir+".rs") || r.file(join(dir, "main.rs"))
}

func (r *resolver) rustModule(dir, name string) bool {
	return r.file(path.Join(dir, name)+".rs") || r.file(path.Join(dir, name, "mod.rs"))
}

// crate returns the directory of the crate's root module.
func (r *resolver) crate(p string) string {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		for _, root := range []string{"lib.rs", "main.rs"} {
			if _, ok := r.byPath[join(dir, root)]; ok {
				return dir
			}
		}
		if dir == "." || dir == "/" {
			return path.Dir(p)
		}
	}
}
