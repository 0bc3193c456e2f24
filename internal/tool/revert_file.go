package tool

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed revert_file.md
var revertFileDescription string

type revertFileParams struct {
	Path string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File."`
	To   Time   `json:"to,omitempty" jsonschema:"enum=base,enum=step" jsonschema_description:"Default: step (when you began)."`
}

func revertFile() Tool {
	return define(Definition{Name: RevertFile, Description: revertFileDescription}, func(ctx context.Context, env Env, p revertFileParams) (Result, error) {
		if env.Earlier == nil {
			return failed(contract.CodeForbidden, "Files cannot be restored here."), nil
		}
		f, err := openFiles(env)
		if err != nil {
			return Result{}, err
		}
		defer f.close()
		return answer(f.revert(ctx, env, p))
	})
}

func (f *files) revert(ctx context.Context, env Env, p revertFileParams) (Result, error) {
	name, err := cleanPath(p.Path)
	if err != nil {
		return Result{}, err
	}
	at, when := AtStep, "when you began"
	if p.To == AtBase {
		at, when = AtBase, "in the base commit"
	}
	before, err := env.Earlier(ctx, name, at)
	switch {
	case err != nil:
		return Result{}, err
	case before.Special:
		return Result{}, refuse("", "%s was no regular file, or a very large one, %s; it was not changed.", name, when)
	case !before.Exists:
		return f.removeNew(name, when)
	}
	now, err := f.readWhole(name, int64(max(len(before.Content), f.limits.WriteBytes)))
	var seen refusal
	switch {
	case err == nil && bytes.Equal(now, before.Content) && f.executable(name) == before.Executable:
		return Result{OK: true, Text: name + " is already as it was " + when + "."}, nil
	case err == nil:
		if err = f.overwrite(name, before.Content); err == nil && f.executable(name) != before.Executable {
			err = explain(name, f.root.Chmod(name, before.mode()))
		}
	case errors.As(err, &seen) && seen.Code == "" && f.missing(name):
		err = f.restore(name, before)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{OK: true, Changed: true, Path: name, Text: "Restored " + name + " as it was " + when + "."}, nil
}

// removeNew removes a file that did not exist.
func (f *files) removeNew(name, when string) (Result, error) {
	if f.missing(name) {
		return Result{}, refuse("", "%s does not exist, and did not exist %s.", name, when)
	}
	result, err := f.delete(deleteFileParams{Path: name})
	if err == nil && result.OK {
		result.Text = "Deleted " + name + ", which did not exist " + when + "."
	}
	return result, err
}

// missing reports whether nothing has a name.
func (f *files) missing(name string) bool {
	_, err := f.root.Lstat(name)
	return errors.Is(err, os.ErrNotExist)
}

// executable reports whether a regular file is executable.
func (f *files) executable(name string) bool {
	info, err := f.root.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0
}

// mode returns the permissions of the file.
func (f EarlierFile) mode() os.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// restore creates a file that was deleted.
func (f *files) restore(name string, before EarlierFile) error {
	if err := f.makeParents(name); err != nil {
		return err
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, before.mode())
	if err != nil {
		return explain(name, err)
	}
	_, err = file.Write(before.Content)
	return explain(name, errors.Join(err, file.Close()))
}
