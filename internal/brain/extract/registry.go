package extract

import (
	"path"
	"slices"
	"strings"
)

// processors are tried in this order; the first one that matches is used. To support a file type, add a
// processor here.
var processors = []Processor{
	golang, javascript, python, java, rust, ruby, cpp, csharp, php, kotlin, shell,
	markdown{}, gomod{}, yaml, json, toml, sql, makefile, protobuf, graphql, swift, scala, lua, elixir, terraform, prose,
}

// Version changes whenever a processor finds something else in a file than before, so that stored
// extracts are computed again.
const Version = 1

// headBytes is the number of bytes of a file that processors get to recognise it.
const headBytes = 512

// File extracts one file, given its path with slashes.
func File(path string, content []byte) Extract {
	head := content[:min(len(content), headBytes)]
	for _, p := range processors {
		if p.Matches(path, head) {
			return p.Extract(path, content)
		}
	}
	return anything.Extract(path, content)
}

// Family returns a name for the way in which a file is read, as far as its path tells: files with
// the same content and family have the same extract.
func Family(name string) string {
	for _, p := range processors {
		if !p.Matches(name, nil) {
			continue
		}
		switch p := p.(type) {
		case *language:
			return p.langOf(name)
		case gomod:
			return "gomod"
		case plain:
			return p.lang
		case keys:
			if base := path.Base(name); slices.Contains(manifests, base) {
				return base // whose package is extracted
			}
			return p.lang
		}
		break
	}
	ext := strings.ToLower(path.Ext(name))
	return "text" + ext[:min(len(ext), maxFamily)]
}

// maxFamily limits the part of a name that is in a family.
const maxFamily = 16
