package tool

import (
	"context"
	_ "embed"
)

//go:embed delete_file.md
var deleteFileDescription string

type deleteFileParams struct {
	Path string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File."`
}

func deleteFile() Tool {
	return defineOnFiles(Definition{Name: DeleteFile, Description: deleteFileDescription},
		func(_ context.Context, f *files, p deleteFileParams) (Result, error) { return f.delete(p) })
}

func (f *files) delete(p deleteFileParams) (Result, error) {
	name, err := cleanPath(p.Path)
	if err != nil {
		return Result{}, err
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return Result{}, explain(name, err)
	}
	if info.IsDir() {
		return Result{}, refuse("", "%s is a directory. Delete its files one by one, or use run_command.", name)
	}
	if err := f.root.Remove(name); err != nil {
		return Result{}, explain(name, err)
	}
	return Result{OK: true, Changed: true, Path: name, Text: "Deleted " + name + "."}, nil
}
