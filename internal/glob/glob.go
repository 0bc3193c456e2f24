// Package glob matches paths against patterns that strangers wrote: models, and the
// files of repositories. It has doublestar's syntax (**, *, ?, [a-z], {a,b}) and
// bounds what a pattern may cost, as the time for braces grows with the product of
// their alternatives.
package glob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The bounds of a pattern.
const (
	MaxBytes        = 1000
	MaxAlternatives = 100 // patterns without braces that it stands for
)

// maxWalk bounds the directory entries that one Walk looks at.
const maxWalk = 1_000_000

// Check says what is wrong with a pattern, nil for nothing: that it is invalid, or
// is over one of the bounds.
func Check(pattern string) error {
	if len(pattern) > MaxBytes {
		return fmt.Errorf("has %d bytes, more than the %d allowed", len(pattern), MaxBytes)
	}
	if alternatives(pattern) > MaxAlternatives {
		return fmt.Errorf("expands to more than %d patterns; use fewer {…}", MaxAlternatives)
	}
	if !doublestar.ValidatePattern(pattern) {
		return errors.New("is not valid; expected one such as **/*.go or src/*.{js,ts}")
	}
	return nil
}

// Match reports whether a pattern matches a path. What Check refuses matches
// nothing.
func Match(pattern, name string) bool {
	if Check(pattern) != nil {
		return false
	}
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}

// Literal takes the meaning from the braces of a pattern of another syntax, such as
// that of .gitignore, in which they stand for themselves.
func Literal(pattern string) string {
	if !strings.ContainsAny(pattern, "{}") {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			b.WriteByte('\\')
			if i++; i == len(pattern) {
				return b.String()
			}
		case '{', '}':
			b.WriteByte('\\')
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// Walk calls visit for the files below fsys that match a pattern, following no
// links. It ends with ctx, and after maxWalk entries, with an error; so it does for
// a pattern that Check refuses. What cannot be read is passed over.
func Walk(ctx context.Context, fsys fs.FS, pattern string, visit func(path string) error) error {
	if err := Check(pattern); err != nil {
		return fmt.Errorf("pattern %q %w", pattern, err)
	}
	bounded := &boundedFS{FS: fsys, ctx: ctx, left: maxWalk}
	err := doublestar.GlobWalk(bounded, pattern, func(path string, _ fs.DirEntry) error { return visit(path) }, doublestar.WithNoFollow())
	return errors.Join(err, bounded.ended)
}

// boundedFS stops answering when its context ends, or too much was read.
type boundedFS struct {
	fs.FS
	ctx   context.Context
	left  int
	ended error // why it stopped
}

var errTooMany = fmt.Errorf("there are more than %d files and directories to check", maxWalk)

func (b *boundedFS) check() error {
	switch {
	case b.ended != nil:
	case b.ctx.Err() != nil:
		b.ended = context.Cause(b.ctx)
	case b.left <= 0:
		b.ended = errTooMany
	}
	return b.ended
}

// Open implements fs.FS.
func (b *boundedFS) Open(name string) (fs.File, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return b.FS.Open(name)
}

// Stat implements fs.StatFS.
func (b *boundedFS) Stat(name string) (fs.FileInfo, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	b.left--
	return fs.Stat(b.FS, name)
}

// ReadDir implements fs.ReadDirFS.
func (b *boundedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(b.FS, name)
	b.left -= len(entries) + 1
	return entries, err
}

// Lstat lets doublestar see links as what they are.
func (b *boundedFS) Lstat(name string) (fs.FileInfo, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	b.left--
	return fs.Lstat(b.FS, name)
}

// ReadLink completes fs.ReadLinkFS.
func (b *boundedFS) ReadLink(name string) (string, error) {
	if err := b.check(); err != nil {
		return "", err
	}
	return fs.ReadLink(b.FS, name)
}

// alternatives counts the patterns without braces that a pattern stands for, up to
// MaxAlternatives and one more.
func alternatives(pattern string) int {
	n, _ := sequence(pattern, 0, false)
	return n
}

// sequence counts from i on, in braces to the comma or brace that ends it, and
// returns where that is.
func sequence(p string, i int, inside bool) (count, end int) {
	count = 1
	for ; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '{':
			sum := 0
			for i < len(p) && (p[i] == '{' || p[i] == ',') {
				var n int
				n, i = sequence(p, i+1, true)
				sum = min(sum+n, MaxAlternatives+1)
			}
			count = min(count*sum, MaxAlternatives+1)
		case ',', '}':
			if inside {
				return count, i
			}
		}
	}
	return count, i
}
