package tool

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed create_file.md
var createFileDescription string

type createFileParams struct {
	Path    string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File."`
	Content string `json:"content" jsonschema_description:"Complete content."`
}

func createFile() Tool {
	return defineOnFiles(Definition{Name: CreateFile, Description: createFileDescription},
		func(_ context.Context, f *files, p createFileParams) (Result, error) { return f.create(p) })
}

func (f *files) create(p createFileParams) (Result, error) {
	name, err := cleanPath(p.Path)
	if err != nil {
		return Result{}, err
	}
	if name == "." {
		return Result{}, refuse("", "%s is a directory, not a file.", p.Path)
	}
	content := []byte(p.Content)
	if len(content) > f.limits.WriteBytes {
		return Result{}, tooLarge(name, int64(len(content)), int64(f.limits.WriteBytes))
	}
	if err := f.makeParents(name); err != nil {
		return Result{}, err
	}
	// O_EXCL also prevents following a symbolic link with that name.
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return f.createOver(name, content)
	}
	if err != nil {
		return Result{}, explain(name, err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return Result{}, explain(name, err)
	}
	return Result{OK: true, Changed: true, Path: name, Text: fmt.Sprintf("Created %s with %d lines.", name, countLines(content))}, nil
}

// createOver returns the result if the path already exists. Creating a file that already has this
// content succeeds: it happens when a call is repeated.
func (f *files) createOver(name string, content []byte) (Result, error) {
	there, err := f.readWhole(name, int64(f.limits.WriteBytes))
	if err == nil && bytes.Equal(there, content) {
		return Result{OK: true, Text: name + " already exists with exactly this content."}, nil
	}
	var seen refusal
	if errors.As(err, &seen) && seen.Code == contract.CodePathEscape {
		return Result{}, err
	}
	return Result{}, refuse("", "%s already exists and was not changed. Change it with edit_file, or delete it first.", name)
}

func (f *files) makeParents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	err := f.root.MkdirAll(dir, 0o755)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return refuse("", "Part of the path %s is a file, not a directory.", name)
	}
	return explain(dir, err)
}
