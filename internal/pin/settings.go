package pin

import (
	"bytes"
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// settingsOf returns the rule for the settings in the file at a path, nil for a file
// without such settings. No file matches two rules of different languages.
func settingsOf(p string) func(*buildfiles.Change) {
	rules := slices.Clone(buildfiles.Rules)
	for _, l := range languages {
		rules = append(rules, l.Settings...)
	}
	for _, r := range rules {
		if r.Path.MatchString(p) {
			return r.Judge
		}
	}
	return nil
}

// maxNotices is how many settings of one file are listed.
const maxNotices = 50

// judgeSettings judges a file that says which tests run.
func (j *judge) judgeSettings(f File) {
	judge := settingsOf(f.Path)
	if judge == nil {
		judge = settingsOf(f.RenamedFrom)
	} else if f.RenamedFrom != f.Path && settingsOf(f.RenamedFrom) == nil {
		f.Before, f.Existed = nil, false
	}
	if judge == nil {
		return
	}
	c := &buildfiles.Change{Before: f.Before, After: f.After, Existed: f.Existed, Exists: f.Exists}
	if f.RenamedFrom != f.Path && settingsOf(f.Path) == nil {
		c.After, c.Exists = nil, false
	}
	judge(c)
	for i, n := range slices.Concat(c.Excluded, c.Edited) {
		kind := Edited
		if i < len(c.Excluded) {
			kind = Excluded
		}
		if i == maxNotices {
			j.report(kind, "", f.Path, 0, "%s: %d more settings are not listed", testfile.Clean(path.Base(f.Path)), len(c.Excluded)+len(c.Edited)-i)
			break
		}
		j.report(kind, "", f.Path, lineOf(f.After, n.Text), "%s: %s", testfile.Clean(path.Base(f.Path)), testfile.Clean(n.Reason))
	}
}

func lineOf(data []byte, at string) int {
	if at == "" {
		return 0
	}
	i := bytes.Index(data, []byte(at))
	if i < 0 {
		return 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1
}
