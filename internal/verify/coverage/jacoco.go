package coverage

import (
	"encoding/xml"
	"io/fs"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// readJaCoCo reads JaCoCo's XML, which names files by their package.
func (p *Profile) readJaCoCo(data []byte, s output.Paths) error {
	pkg, file := "", ""
	return eachElement(data, func(e xml.StartElement, _ []string) error {
		switch e.Name.Local {
		case "package":
			pkg = attribute(e, "name")
		case "sourcefile":
			file = p.endingIn(path.Join(pkg, attribute(e, "name")), s.Dir)
		case "line":
			return p.mark(file, number(e, "nr"), number(e, "nr"), number(e, "ci") > 0)
		}
		return nil
	}, nil)
}

// Limits on the files of a checkout that are searched for the classes of a report.
const (
	maxIndexed  = 200_000
	maxSameName = 1000 // files of the same base name; further ones are not found
)

// index finds source files by their base name.
type index struct{ byBase map[string][]string }

// endingIn returns the only file below dir whose path ends in name.
func (p *Profile) endingIn(name, dir string) string {
	return p.remember("\x00"+dir+"\x00"+name, func() string { return p.searched(name, dir) })
}

func (p *Profile) searched(name, dir string) string {
	if p.index == nil {
		p.index = p.newIndex()
	}
	found := ""
	for _, f := range p.index.byBase[path.Base(name)] {
		if !output.Below(f, path.Join(".", dir)) || f != name && !strings.HasSuffix(f, "/"+name) {
			continue
		}
		if found != "" {
			return "" // modules have packages of the same name
		}
		found = f
	}
	return found
}

func (p *Profile) newIndex() *index {
	out := &index{byBase: map[string][]string{}}
	n := 0
	// What cannot be read is not in the index.
	_ = fs.WalkDir(p.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if n++; n > maxIndexed {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			return fs.SkipDir
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.Type().IsRegular() && jvmSource[path.Ext(name)] && len(out.byBase[e.Name()]) < maxSameName:
			out.byBase[e.Name()] = append(out.byBase[e.Name()], name)
		}
		return nil
	})
	return out
}

var jvmSource = map[string]bool{".java": true, ".kt": true, ".scala": true, ".groovy": true}
