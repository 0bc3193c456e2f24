package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// refusal is an error that the model sees as a result.
type refusal struct{ Result }

func (r refusal) Error() string { return r.Text }

func refuse(code contract.Code, format string, args ...any) error {
	return refusal{failed(code, format, args...)}
}

// answer converts an error that the model should see into a result.
func answer(r Result, err error) (Result, error) {
	var seen refusal
	if errors.As(err, &seen) {
		return seen.Result, nil
	}
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// files provides access to the files of a workspace.
type files struct {
	root   *os.Root
	limits Limits
}

func openFiles(env Env) (*files, error) {
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		f := fault.Of(err)
		return nil, fault.Wrap(err, f.Class, f.Code, "cannot open the workspace directory")
	}
	return &files{root: root, limits: env.Limits}, nil
}

func (f *files) close() { _ = f.root.Close() }

// defineOnFiles creates a tool from a function on the files of the workspace.
func defineOnFiles[P any](d Definition, call func(ctx context.Context, f *files, params P) (Result, error)) Tool {
	return define(d, func(ctx context.Context, env Env, params P) (Result, error) {
		f, err := openFiles(env)
		if err != nil {
			return Result{}, err
		}
		defer f.close()
		return answer(call(ctx, f, params))
	})
}

// cleanPath checks a path from a model and returns it in its shortest form. os.Root determines the
// meaning of a path; paths rejected here are never legitimate, or would have another meaning on
// another system.
func cleanPath(name string) (string, error) {
	switch {
	case name == "":
		return "", refuse(contract.CodeInvalidOutput, "The path is empty. Use a path relative to the workspace, such as src/main.go.")
	case strings.ContainsRune(name, 0):
		return "", refuse(contract.CodePathEscape, "The path %q contains a NUL byte.", name)
	case path.IsAbs(name) || strings.HasPrefix(name, `\`) || hasDrive(name):
		return "", refuse(contract.CodePathEscape, "The path %q is absolute. Paths are relative to the workspace, such as src/main.go.", name)
	}
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return "", refuse(contract.CodePathEscape, "The path %q contains '..'. Paths are relative to the workspace and must stay inside it.", name)
		}
		if workspace.IsGitName(part) {
			return "", refuse(contract.CodePathEscape, "The path %q leads into a git directory, which is not part of the workspace.", name)
		}
	}
	return path.Clean(name), nil
}

func hasDrive(name string) bool {
	return len(name) >= 3 && name[1] == ':' && (name[2] == '\\' || name[2] == '/')
}

// explain converts a file system error about a path into a refusal if the model can resolve it.
func explain(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "path escapes from parent"):
		return refuse(contract.CodePathEscape, "%s leads outside the workspace through a symbolic link.", name)
	case errors.Is(err, fs.ErrNotExist):
		return refuse("", "%s does not exist. list_files shows what exists.", name)
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("", "Part of the path %s is a file, not a directory.", name)
	case errors.Is(err, syscall.EISDIR):
		return refuse("", "%s is a directory, not a file.", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("", "The path %s is too long.", fault.Clip(name, 100))
	case errors.Is(err, syscall.ELOOP):
		return refuse("", "%s is a symbolic link that leads to itself.", name)
	case errors.Is(err, fs.ErrPermission):
		return refuse("", "%s cannot be accessed: permission denied.", name)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return refuse("", "%s is not a regular file.", name)
	}
	f := fault.Of(err)
	return fault.Wrap(err, f.Class, f.Code, "cannot use the file %s", name)
}

// open opens a regular file. It rejects pipes and devices immediately, because opening or reading
// them could block forever.
func (f *files) open(name string, flag int) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = explain(name, err)
	case info.IsDir():
		err = refuse("", "%s is a directory, not a file. list_files shows what is in it.", name)
	case !info.Mode().IsRegular():
		err = refuse("", "%s is not a regular file.", name)
	default:
		return file, info, nil
	}
	_ = file.Close()
	return nil, nil, err
}

// readWhole reads a file of at most limit bytes.
func (f *files) readWhole(name string, limit int64) ([]byte, error) {
	file, info, err := f.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > limit {
		return nil, tooLarge(name, info.Size(), limit)
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, explain(name, err)
	}
	if int64(len(content)) > limit {
		return nil, tooLarge(name, int64(len(content)), limit)
	}
	return content, nil
}

func tooLarge(name string, size, limit int64) error {
	return refuse("", "%s is %d bytes long; at most %d are allowed here.", name, size, limit)
}

// binaryProbe is the number of bytes that git reads to distinguish text from binary.
const binaryProbe = 8000

func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), binaryProbe)], 0) >= 0
}

func binaryRefusal(name string, size int64) error {
	return refuse("", "%s is a binary file of %d bytes.", name, size)
}

// overwrite replaces a file's content in place, so that its mode and links to it are preserved.
func (f *files) overwrite(name string, content []byte) error {
	file, _, err := f.open(name, os.O_WRONLY)
	if err != nil {
		return err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.Write(content)
	}
	return explain(name, errors.Join(err, file.Close()))
}

// countLines counts lines, including a last line without a line break.
func countLines(content []byte) int {
	n := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}

// numbered writes one line with its number, as read_file shows it.
func numbered(b *strings.Builder, number int, line string, maxBytes int) {
	line = strings.TrimRight(line, "\r\n")
	cut := ""
	if len(line) > maxBytes {
		cut = fmt.Sprintf(" [line truncated; it is %d bytes long]", len(line))
		line = line[:maxBytes]
	}
	fmt.Fprintf(b, "%d\t%s%s\n", number, strings.ToValidUTF8(line, "\uFFFD"), cut)
}
