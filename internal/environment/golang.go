package environment

import (
	"path"
	"slices"

	"golang.org/x/mod/modfile"
)

// goOnline overrides the settings that prevent Go from using the network in other commands.
const goOnline = "GOPROXY=https://proxy.golang.org GOSUMDB=sum.golang.org "

// findGo fetches the modules of each go.mod. Go does not change the repository's files: a missing
// sum stays missing, so the checks detect it.
func findGo(f *finder) {
	dirs := f.t.folders("go.mod")
	members := f.goWork()
	for _, dir := range dirs {
		manifest := path.Join(dir, "go.mod")
		if !f.project(Project{Dir: dir, Ecosystem: "go", Manager: "go", Manifest: manifest, Lock: f.t.first(dir, "go.sum")}) {
			return
		}
		mod, err := modfile.ParseLax(manifest, []byte(f.t.text(manifest)), nil)
		if err != nil {
			continue // go will report what is wrong with it
		}
		if mod.Go != nil {
			f.want("go", mod.Go.Version, manifest, atLeast)
		}
		if len(mod.Require) == 0 || f.t.has(path.Join(dir, "vendor/modules.txt")) {
			continue
		}
		off := ""
		if len(members) > 0 && !slices.Contains(members, dir) {
			off = "GOWORK=off "
		}
		if len(members) == 0 || !slices.Contains(members, dir) {
			f.command(Command{Dir: dir, Shell: off + goOnline + "go mod download -modcacherw", Optional: dir != "."})
		}
	}
	if len(dirs) > 0 {
		f.set("GOMODCACHE", home+"/go/pkg/mod")
		f.path(home + "/go/bin")
	}
}

// goWork fetches the modules of a workspace and returns the workspace's directories.
func (f *finder) goWork() []string {
	if !f.t.has("go.work") {
		return nil
	}
	work, err := modfile.ParseWork("go.work", []byte(f.t.text("go.work")), nil)
	if err != nil {
		return nil
	}
	f.input("go.work", "go.work.sum")
	if work.Go != nil {
		f.want("go", work.Go.Version, "go.work", atLeast)
	}
	var members []string
	for _, use := range work.Use {
		members = append(members, path.Clean(use.Path))
	}
	if f.t.has("vendor/modules.txt") {
		return members
	}
	download := goOnline + "go mod download -modcacherw"
	if f.t.has("go.work.sum") {
		download = restoring("go.work.sum", download)
	}
	f.run(".", download)
	return members
}
