package dockerfile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const (
	// MaxFiles is the maximum number of files in a context.
	MaxFiles = 100_000
	// maxIgnore is the maximum size of a .dockerignore file, and maxPatterns that of its patterns.
	maxIgnore   = 64 << 10
	maxPatterns = 500
	// maxSymlink is the maximum length of a symbolic link's target.
	maxSymlink = 4 << 10
)

// Name is the name of the rendered Dockerfile in the archive of a context. A .dockerignore of the
// archive keeps both out of the image.
const Name = ".rgpt.Dockerfile"

const ignoreName = ".dockerignore"

// Context contains the files that COPY and ADD may read.
type Context struct {
	// Bytes is the total size of its files.
	Bytes int64
	// Digest identifies the names, kinds and contents of its files.
	Digest string

	dir     string // relative to the root
	entries []entry
}

// entry is a file, directory or link.
type entry struct {
	name string // slash-separated, relative to the context
	mode fs.FileMode
	size int64
	link string
}

// ReadFile reads a regular file below a root, without following links.
func ReadFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: %w", shown(name), fs.ErrNotExist)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &Refused{Reason: shown(name) + " is not a regular file"}
	case info.Size() > limit:
		return nil, &Refused{Reason: fmt.Sprintf("%s is larger than %d bytes", shown(name), limit)}
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// ReadContext reads which files a context has, and their digest. dir is the context's directory below
// root; dockerfile is the path of the Dockerfile, whose own .dockerignore counts before the context's.
func ReadContext(root *os.Root, dir, dockerfile string, maxBytes int64) (*Context, error) {
	ignore, err := ignored(root, dir, dockerfile)
	if err != nil {
		return nil, err
	}
	c := &Context{dir: dir}
	w := &walker{root: root, dir: dir, ignore: ignore, max: maxBytes, context: c}
	below, err := fs.Sub(root.FS(), path.Clean(dir))
	if err != nil {
		return nil, err
	}
	if err := fs.WalkDir(below, ".", w.visit); err != nil {
		return nil, err
	}
	slices.SortFunc(c.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return c, c.hash(root)
}

// ignored reads the patterns of the files that are not part of the context.
func ignored(root *os.Root, dir, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	for _, name := range []string{dockerfile + ignoreName, path.Join(dir, ignoreName)} {
		data, err := ReadFile(root, name, maxIgnore)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(data))
		if err == nil && len(patterns) > maxPatterns {
			err = fmt.Errorf("it has more than %d patterns", maxPatterns)
		}
		var matcher *patternmatcher.PatternMatcher
		if err == nil {
			matcher, err = patternmatcher.New(patterns)
		}
		if err != nil {
			return nil, &Refused{Reason: fmt.Sprintf("%s is invalid: %s", shown(name), shown(err.Error()))}
		}
		return matcher, nil
	}
	return patternmatcher.New(nil)
}

// walker collects the entries of a context.
type walker struct {
	root    *os.Root
	dir     string
	ignore  *patternmatcher.PatternMatcher
	max     int64
	context *Context
}

func (w *walker) visit(name string, d fs.DirEntry, err error) error {
	if err != nil || name == "." {
		return err
	}
	if name == ".git" || name == Name || name == ignoreName {
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	skip, err := w.ignore.MatchesOrParentMatches(filepath.FromSlash(name))
	if err != nil {
		return &Refused{Reason: "a pattern of .dockerignore cannot be matched: " + shown(err.Error())}
	}
	if skip {
		if d.IsDir() && !w.ignore.Exclusions() {
			return fs.SkipDir
		}
		return nil
	}
	return w.add(name, d)
}

func (w *walker) add(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	e := entry{name: name, mode: info.Mode()}
	switch {
	case e.mode.IsRegular():
		e.size = info.Size()
	case e.mode&fs.ModeSymlink != 0:
		if e.link, err = w.root.Readlink(filepath.Join(filepath.FromSlash(w.dir), filepath.FromSlash(name))); err != nil {
			return err
		}
		if len(e.link) > maxSymlink {
			return &Refused{Reason: fmt.Sprintf("the target of the link %s is longer than %d bytes", shown(name), maxSymlink)}
		}
	case !e.mode.IsDir():
		return &Refused{Reason: shown(name) + " is neither a file nor a directory nor a link"}
	}
	w.context.Bytes += e.size
	w.context.entries = append(w.context.entries, e)
	switch {
	case len(w.context.entries) > MaxFiles:
		return &Refused{Reason: fmt.Sprintf("its context has more than %d files; list those that it does not need in .dockerignore", MaxFiles)}
	case w.context.Bytes > w.max:
		return &Refused{Reason: fmt.Sprintf("its context is larger than %d bytes (execution.sandbox.docker.build.context_size); list the files that it does not need in .dockerignore", w.max)}
	}
	return nil
}

// permissions returns what an image stores of a file's mode.
func (e entry) permissions() int64 {
	if e.mode.IsDir() || e.mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// open opens a file of the context, which must still have its size.
func (c *Context) open(root *os.Root, e entry) (*os.File, error) {
	return root.Open(filepath.Join(filepath.FromSlash(c.dir), filepath.FromSlash(e.name)))
}

// copyTo copies a file. Its size must be as it was.
func (c *Context) copyTo(w io.Writer, root *os.Root, e entry) error {
	f, err := c.open(root, e)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyN(w, f, e.size)
	if err != nil {
		return fmt.Errorf("%s changed while it was read, after %d bytes: %w", shown(e.name), n, err)
	}
	return nil
}

func (c *Context) hash(root *os.Root) error {
	sum := sha256.New()
	for _, e := range c.entries {
		field(sum, e.name, fmt.Sprint(e.mode.Type(), e.permissions(), e.size), e.link)
		if e.mode.IsRegular() {
			if err := c.copyTo(sum, root, e); err != nil {
				return err
			}
		}
	}
	c.Digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// field adds texts to a hash, so that different lists differ.
func field(h hash.Hash, texts ...string) {
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
}

// Write writes the archive that the engine builds from.
func (c *Context) Write(w io.Writer, root *os.Root, dockerfile []byte) error {
	out := tar.NewWriter(w)
	for name, data := range map[string][]byte{Name: dockerfile, ignoreName: []byte(Name + "\n" + ignoreName + "\n")} {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	for _, e := range c.entries {
		header := &tar.Header{Name: e.name, Mode: e.permissions(), Size: e.size, Linkname: e.link, Typeflag: tar.TypeReg}
		switch {
		case e.mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
		case e.link != "":
			header.Typeflag = tar.TypeSymlink
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if e.mode.IsRegular() {
			if err := c.copyTo(out, root, e); err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// format must change when the same inputs result in a different image.
const format = "1"

// Digest identifies the image that a build results in: a hash of the instructions with the ids of the
// images that they start from, the target, the arguments, the context's digest and this kind of machine.
func Digest(f *File, ids map[string]string, target, context string) string {
	sum := sha256.New()
	field(sum, format, runtime.GOARCH, target, context, string(f.Render(ids)))
	for _, name := range slices.Sorted(maps.Keys(f.args)) {
		field(sum, name, f.args[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
