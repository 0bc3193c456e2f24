package coverage

import (
	"bytes"
	"path"

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
		if dir := s.GoDir(path.Dir(file)); dir != "" {
			file, from = path.Join(dir, path.Base(file)), output.Paths{Root: s.Root}
		}
		name := p.find(file, from)
		for _, b := range f.Blocks {
			if err := p.mark(name, b.StartLine, b.EndLine, b.Count > 0); err != nil {
				return err
			}
		}
	}
	return nil
}
