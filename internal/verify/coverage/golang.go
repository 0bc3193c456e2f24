package coverage

import (
	"bytes"

	"golang.org/x/tools/cover"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// readGo reads a profile of go test -coverprofile, which names files by the path of their package.
func (p *Profile) readGo(data []byte, s output.Paths) error {
	profiles, err := cover.ParseProfilesFromReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for _, f := range profiles {
		file, from := f.FileName, s
		// Of a package, GoDir would take the suffix _test for that of external tests.
		if inside := s.GoDir(file); inside != "" {
			file, from = inside, output.Paths{Root: s.Root}
		}
		name := p.find(file, from)
		for _, b := range f.Blocks {
			if b.NumStmt == 0 {
				continue // an empty function or case
			}
			if err := p.mark(name, b.StartLine, b.EndLine, b.Count > 0); err != nil {
				return err
			}
		}
	}
	return nil
}
