package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The built-in bundles, from the strictest.
const (
	Strict     = "strict"
	Default    = "default"
	Permissive = "permissive"
)

// Names returns the names of the built-in bundles.
func Names() []string { return []string{Default, Strict, Permissive} }

// The packages of policies that are not built in, which are also the names of their bundles.
const (
	Operator   = "operator"
	Repository = "repository"
)

// Module is a file of policies.
type Module struct {
	Name    string `json:"name"`
	Content []byte `json:"content"`
}

// The limits of the operator's policies: files, and bytes of one.
const (
	MaxModules     = 200
	MaxModuleBytes = 1 << 20
)

// testSuffix marks files with tests, which are not evaluated.
const testSuffix = "_test.rego"

//go:embed bundles/lib.rego bundles/default.rego bundles/strict.rego bundles/permissive.rego
var files embed.FS

// parts are the files that a built-in bundle consists of.
var parts = map[string][]string{
	Default:    {"lib.rego", "default.rego"},
	Strict:     {"lib.rego", "default.rego", "strict.rego"},
	Permissive: {"lib.rego", "permissive.rego"},
}

// BuiltIn returns the files of a built-in bundle, without tests.
func BuiltIn(name string) ([]Module, error) {
	wanted, ok := parts[name]
	if !ok {
		return nil, fmt.Errorf("no built-in policy has the name %q; choose %s", name, strings.Join(Names(), ", "))
	}
	var out []Module
	for _, file := range wanted {
		content, err := files.ReadFile("bundles/" + file)
		if err != nil {
			return nil, err
		}
		out = append(out, Module{Name: "rgpt/" + file, Content: content})
	}
	return out, nil
}

// allBuiltIn returns the files of all built-in bundles.
func allBuiltIn() ([]Module, error) {
	entries, err := files.ReadDir("bundles")
	if err != nil {
		return nil, err
	}
	var out []Module
	for _, e := range entries {
		content, err := files.ReadFile("bundles/" + e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, Module{Name: "rgpt/" + e.Name(), Content: content})
	}
	return out, nil
}

// Load reads the operator's policies: the .rego files of a directory, without its subdirectories.
// Files with tests are read only if tests is true.
func Load(dir string, tests bool) ([]Module, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of policies: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list the policies in %s: %w", dir, err)
	}
	var out []Module
	for _, e := range entries {
		if path.Ext(e.Name()) != ".rego" || strings.HasSuffix(e.Name(), testSuffix) && !tests {
			continue
		}
		if len(out) == MaxModules {
			return nil, fmt.Errorf("%s contains more than %d policy files; merge some of them", dir, MaxModules)
		}
		content, err := readModule(root, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the policy %s: %w", filepath.Join(dir, e.Name()), err)
		}
		out = append(out, Module{Name: filepath.Join(dir, e.Name()), Content: content})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s contains no .rego files", dir)
	}
	return out, nil
}

func readModule(root *os.Root, name string) ([]byte, error) {
	// Not blocking: a named pipe must not stop the program.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, MaxModuleBytes+1))
	if err == nil && len(content) > MaxModuleBytes {
		err = fmt.Errorf("it is larger than %d KiB; split it", MaxModuleBytes>>10)
	}
	return content, err
}

// digestOf returns the digest of files, regardless of their directory and order.
func digestOf(modules []Module) string {
	sorted := slices.SortedFunc(slices.Values(modules), func(a, b Module) int {
		return cmp.Or(cmp.Compare(path.Base(a.Name), path.Base(b.Name)), bytes.Compare(a.Content, b.Content))
	})
	h := sha256.New()
	for _, m := range sorted {
		fmt.Fprintf(h, "%d:%s%d:", len(path.Base(m.Name)), path.Base(m.Name), len(m.Content))
		h.Write(m.Content)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
