// Package trust records which configuration files a person trusts. A directory that someone else
// created, such as a fresh clone, may contain an rgpt.yaml that sends keys elsewhere or opens the
// sandbox. Only a file that a person trusted, with its content at that time, counts as the
// operator's.
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// List is a file with one line for each trusted file: the digest of its path and
// content, and its path.
type List struct{ path string }

// maxBytes bounds the list.
const maxBytes = 4 << 20

// At returns the list in a file, which need not exist yet.
func At(path string) List { return List{path} }

// Default returns the list of a user, next to the base file of the configuration: rgpt/trusted in
// XDG_CONFIG_HOME or ~/.config. Without either, no file is trusted. getenv is usually os.Getenv.
func Default(getenv func(string) string) List {
	switch {
	case getenv("XDG_CONFIG_HOME") != "":
		return At(filepath.Join(getenv("XDG_CONFIG_HOME"), "rgpt", "trusted"))
	case getenv("HOME") != "":
		return At(filepath.Join(getenv("HOME"), ".config", "rgpt", "trusted"))
	}
	return List{}
}

// Trusts reports whether a file is trusted with this content at this path.
func (l List) Trusts(file string, content []byte) bool {
	lines, err := l.read()
	if err != nil {
		return false
	}
	line, err := lineOf(file, content)
	return err == nil && slices.Contains(lines, line)
}

// Add trusts files with their current content, replacing earlier entries.
func (l List) Add(files ...string) error {
	return l.change(files, true)
}

// Remove removes files from the list.
func (l List) Remove(files ...string) error {
	return l.change(files, false)
}

func (l List) change(files []string, add bool) error {
	if l.path == "" {
		return errors.New("cannot store the list of trusted files: neither HOME nor XDG_CONFIG_HOME is set")
	}
	lines, err := l.read()
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil && add {
			return fmt.Errorf("trust %s: %w", file, err)
		}
		line, err := lineOf(file, content)
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(line, " ")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+name) })
		if add {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return l.write(strings.Join(lines, "\n") + "\n")
}

func (l List) read() ([]string, error) {
	if l.path == "" {
		return nil, nil
	}
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > maxBytes {
		err = fmt.Errorf("it is larger than %d bytes", maxBytes)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(l.path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of trusted files %s: %w", l.path, err)
	}
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' }), nil
}

// write replaces the whole list.
func (l List) write(text string) error {
	err := os.MkdirAll(filepath.Dir(l.path), 0o700)
	if err == nil {
		err = renameio.WriteFile(l.path, []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the list of trusted files %s: %w", l.path, err)
	}
	return nil
}

// lineOf returns the line of a file. Links in its path are resolved, so each file has only one
// line; a line break in the path is replaced by a space.
func lineOf(file string, content []byte) (string, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", file, err)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(whole)); err == nil {
		whole = filepath.Join(dir, filepath.Base(whole))
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%d:%s%s", len(whole), whole, content)
	return hex.EncodeToString(hash.Sum(nil)) + " " + strings.NewReplacer("\n", " ", "\r", " ").Replace(whole), nil
}
