package coverage

import (
	"encoding/xml"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// maxSourceDirs limits the directories that a report names its files in.
const maxSourceDirs = 50

// readCobertura reads Cobertura's XML, which coverage.py, istanbul and others write too. It names
// files relative to one of several directories.
func (p *Profile) readCobertura(data []byte, s output.Paths) error {
	var dirs []string
	file := ""
	return eachElement(data, func(e xml.StartElement, around []string) error {
		switch e.Name.Local {
		case "class":
			file = p.findIn(dirs, attribute(e, "filename"), s)
		case "line":
			if slices.Contains(around, "methods") {
				return nil // the declarations of methods, which are listed again if they count as lines
			}
			hits, err := strconv.ParseFloat(attribute(e, "hits"), 64)
			return p.mark(file, number(e, "number"), number(e, "number"), err == nil && hits > 0)
		}
		return nil
	}, func(element, content string) {
		if dir := strings.TrimSpace(content); element == "source" && dir != "" && len(dirs) < maxSourceDirs {
			dirs = append(dirs, dir)
		}
	})
}

// findIn returns the file that a report names relative to one of its directories.
func (p *Profile) findIn(dirs []string, name string, s output.Paths) string {
	if name == "" {
		return ""
	}
	for _, dir := range dirs {
		if path.IsAbs(name) {
			break
		}
		if found := p.find(path.Join(dir, name), s); found != "" {
			return found
		}
	}
	return p.find(name, s)
}
