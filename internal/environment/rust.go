package environment

import (
	"path"
	"slices"
	"strings"
)

type cargoManifest struct {
	Package struct {
		RustVersion any `toml:"rust-version"`
	} `toml:"package"`
	Workspace *struct {
		Package struct {
			RustVersion string `toml:"rust-version"`
		} `toml:"package"`
	} `toml:"workspace"`
}

// findRust fetches crates for the worker's own platform. Without a lock file, cargo writes one,
// which becomes part of the environment, so that the versions fetched are the versions built.
func findRust(f *finder) {
	var roots []string
	for _, dir := range f.t.folders("Cargo.toml") {
		inRoot := slices.ContainsFunc(roots, func(root string) bool { return inside(dir, root) })
		if inRoot && !f.t.has(path.Join(dir, "Cargo.lock")) {
			f.input(path.Join(dir, "Cargo.toml")) // a member of a workspace, or one that cargo finds by its path
			continue
		}
		roots = append(roots, dir)
		if !f.rustProject(dir, inRoot) {
			return
		}
	}
	if len(roots) > 0 {
		f.set("CARGO_HOME", home+"/.cargo")
		f.set("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "fallback")
		f.path(home + "/.cargo/bin")
	}
}

func (f *finder) rustProject(dir string, nested bool) bool {
	manifest := path.Join(dir, "Cargo.toml")
	p := Project{Dir: dir, Ecosystem: "rust", Manager: "cargo", Manifest: manifest, Lock: f.t.first(dir, "Cargo.lock")}
	if !f.project(p) {
		return false
	}
	f.input(f.t.first(dir, ".cargo/config.toml", ".cargo/config"), f.t.first(dir, "rust-toolchain.toml", "rust-toolchain"))
	var m cargoManifest
	f.t.toml(manifest, &m)
	wanted, _ := m.Package.RustVersion.(string)
	if wanted == "" && m.Workspace != nil {
		wanted = m.Workspace.Package.RustVersion
	}
	if wanted != "" {
		f.want("cargo", wanted, manifest, atLeast)
	}
	fetch := `CARGO_NET_OFFLINE=false cargo fetch --target "$(rustc -vV | sed -n 's/^host: //p')"`
	if p.Lock != "" {
		fetch = firstSuccess(fetch+" --locked", restoring("Cargo.lock", fetch))
	}
	f.command(Command{Dir: dir, Shell: fetch, Optional: nested || strings.Contains(dir, "/")})
	return true
}
