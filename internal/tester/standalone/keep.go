package standalone

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// Limits of the kept files of one verification, in addition to artifacts.max_file for each. Logs
// count, but are always kept: their own limits are far lower.
const (
	KeptBytes = 2 << 30
	KeptFiles = 10_000
)

// keeper writes files to a directory of the user. A nil keeper keeps none.
type keeper struct {
	root    *os.Root
	maxFile int64

	mu    sync.Mutex
	bytes int64
	names []string
}

func openKeeper(dir string, maxFile int64) (*keeper, error) {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(dir); err == nil {
			return &keeper{root: root, maxFile: maxFile}, nil
		}
	}
	return nil, fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "cannot write to the directory %s (--artifacts)", dir)
}

func (k *keeper) close() {
	if k != nil {
		k.root.Close()
	}
}

// list returns the names of all kept files, sorted.
func (k *keeper) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.Sort(k.names)
	return append([]string{}, slices.Compact(k.names)...)
}

// reserve reports whether a file fits.
func (k *keeper) reserve(name string, size int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return fmt.Errorf("%q is not the name of a file", name)
	case size > k.maxFile:
		return fmt.Errorf("it is larger than %d bytes (artifacts.max_file)", k.maxFile)
	case k.bytes+size > KeptBytes || len(k.names) >= KeptFiles:
		return fmt.Errorf("more than %d files or %d bytes would be kept", KeptFiles, int64(KeptBytes))
	}
	k.bytes += size
	k.names = append(k.names, name)
	return nil
}

// write writes a file of a known size.
func (k *keeper) write(name string, size int64, content io.Reader) error {
	local := filepath.FromSlash(name)
	if err := k.root.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	// A link from an earlier verification is replaced, not followed.
	if info, err := k.root.Lstat(local); err == nil && !info.Mode().IsRegular() {
		if err := k.root.Remove(local); err != nil {
			return fmt.Errorf("keep %s: %w", name, err)
		}
	}
	out, err := k.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	if _, err := io.Copy(out, io.LimitReader(content, size)); err != nil {
		out.Close()
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return out.Close()
}

// keepLogs keeps the log of commands and their network requests.
func (v *verification) keepLogs(logName, requestsName string, log []byte, way *tester.Egress) error {
	if v.files == nil {
		return nil
	}
	requests, err := way.Records()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{logName, log}, {requestsName, requests}} {
		if len(f.content) == 0 {
			continue
		}
		if err := v.files.reserve(f.name, int64(len(f.content))); err != nil {
			v.note("%s was not kept: %v", f.name, err)
			continue
		}
		if err := v.files.write(f.name, int64(len(f.content)), bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	return nil
}

// keepFiles keeps the log, the network requests and the files of a check in a directory of its own.
func (v *verification) keepFiles(folder string, f tester.Files) error {
	if v.files == nil {
		return nil
	}
	if err := v.keepLogs(path.Join(folder, "output.log"), path.Join(folder, "network.jsonl"), f.Log, f.Egress); err != nil {
		return err
	}
	root, err := os.OpenRoot(f.Root)
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer root.Close()
	for _, made := range f.Artifacts {
		name := path.Join(folder, made.Name)
		if err := v.keepFile(root, made.Path, name); err != nil {
			v.note("%s was not kept: %v", name, err)
		}
	}
	if f.Unlisted > 0 {
		v.note("%d more files of %s were not kept", f.Unlisted, folder)
	}
	return nil
}

// keepFile copies a file of a checkout, which hostile commands wrote.
func (v *verification) keepFile(root *os.Root, from, name string) error {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no longer a regular file", from)
	}
	if err := v.files.reserve(name, info.Size()); err != nil {
		return err
	}
	return v.files.write(name, info.Size(), in)
}
