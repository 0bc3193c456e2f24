package tool

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

//go:embed list_files.md
var listFilesDescription string

type listFilesParams struct {
	Path string `json:"path,omitempty" jsonschema_description:"Directory. Default: all."`
	Glob string `json:"glob,omitempty" jsonschema_description:"Such as **/*.go."`
}

func listFiles() Tool {
	return defineOnFiles(Definition{Name: ListFiles, Description: listFilesDescription, ReadOnly: true},
		func(ctx context.Context, f *files, p listFilesParams) (Result, error) {
			text, err := f.list(ctx, p)
			return Result{OK: true, Text: text}, err
		})
}

func (f *files) list(ctx context.Context, p listFilesParams) (string, error) {
	dir, err := cleanDir(p.Path)
	if err != nil {
		return "", err
	}
	if err := checkGlob(p.Glob); err != nil {
		return "", err
	}
	if err := f.checkDir(dir); err != nil {
		return "", err
	}
	var text strings.Builder
	shown, more := 0, 0
	complete, err := f.walk(ctx, dir, func(_ context.Context, name string, _ fs.DirEntry) error {
		if !matches(p.Glob, dir, name) {
			return nil
		}
		if shown == f.limits.ListEntries || text.Len()+len(name) >= f.limits.AnswerBytes {
			more++
			return nil
		}
		shown++
		text.WriteString(strings.ToValidUTF8(name, "\uFFFD") + "\n")
		return nil
	})
	if err != nil {
		return "", err
	}
	switch {
	case shown == 0 && complete:
		return "[no files]\n", nil
	case !complete:
		fmt.Fprintf(&text, "[%d files shown; there are too many to check in time; narrow the list with path]\n", shown)
	case more > 0:
		fmt.Fprintf(&text, "[%d of %d files shown; narrow the list with path or glob]\n", shown, shown+more)
	}
	return text.String(), nil
}

// cleanDir is cleanPath, except that an empty path means the top of the workspace.
func cleanDir(name string) (string, error) {
	if name == "" {
		return ".", nil
	}
	return cleanPath(name)
}

func (f *files) checkDir(dir string) error {
	info, err := f.root.Stat(dir)
	if err != nil {
		return explain(dir, err)
	}
	if !info.IsDir() {
		return refuse("", "%s is a file, not a directory.", dir)
	}
	return nil
}

func checkGlob(pattern string) error {
	if err := glob.Check(pattern); pattern != "" && err != nil {
		return refuse(contract.CodeInvalidOutput, "The glob %q %v. Examples: **/*.go, src/*.{js,ts}.", strings.ToValidUTF8(pattern[:min(len(pattern), maxShownGlob)], "\uFFFD"), err)
	}
	return nil
}

// maxShownGlob limits how much of a rejected glob is quoted to the model.
const maxShownGlob = 200

// matches reports whether a path matches a glob, relative to dir or, as models often
// write it, to the workspace.
func matches(pattern, dir, name string) bool {
	return pattern == "" || glob.Match(pattern, strings.TrimPrefix(name, dir+"/")) || glob.Match(pattern, name)
}
