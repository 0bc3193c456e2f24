// Package glob matches paths against untrusted patterns from models and repository files. It has
// doublestar's syntax (**, *, ?, [a-z], {a,b}) and limits the cost of a pattern, because the time
// for braces grows with the product of their alternatives.
package glob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The limits of a pattern.
const (
	MaxBytes        = 1000
	MaxAlternatives = 100 // patterns without braces that it expands to
)

// maxWalk is the maximum number of directory entries that one Walk visits.
const maxWalk = 1_000_000

// Check returns an error if a pattern is invalid or exceeds a limit.
func Check(pattern string) error {
	if len(pattern) > MaxBytes {
		return fmt.Errorf("is %d bytes long, more than the %d allowed", len(pattern), MaxBytes)
	}
	if alternatives(pattern) > MaxAlternatives {
		return fmt.Errorf("expands to more than %d patterns; use fewer {…}", MaxAlternatives)
	}
	if !doublestar.ValidatePattern(pattern) {
		return errors.New("is not valid; expected a pattern such as **/*.go or src/*.{js,ts}")
	}
	return nil
}

// Match reports whether a pattern matches a path. A pattern that Check rejects does not match any
// path.
func Match(pattern, name string) bool {
	if Check(pattern) != nil {
		return false
	}
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}

// Literal escapes the braces of a pattern of another syntax in which they are literal, such as
// .gitignore.
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

// Walk calls visit for the files in fsys that match a pattern, without following links. It returns
// an error if ctx is done, after maxWalk entries, or if Check rejects the pattern. Unreadable
// entries are skipped.
func Walk(ctx context.Context, fsys fs.FS, pattern string, visit func(path string) error) error {
	if err := Check(pattern); err != nil {
		return fmt.Errorf("pattern %q %w", pattern, err)
	}
	bounded := &boundedFS{FS: fsys, ctx: ctx, left: maxWalk}
	err := doublestar.GlobWalk(bounded, pattern, func(path string, _ fs.DirEntry) error { return visit(path) }, doublestar.WithNoFollow())
	return errors.Join(err, bounded.ended)
}

// boundedFS returns errors once its context is done or its limit is exceeded.
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

// Lstat allows doublestar to recognize links.
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

// alternatives returns the number of patterns without braces that a pattern expands to, at most
// MaxAlternatives + 1.
func alternatives(pattern string) int {
	n, _ := sequence(pattern, 0, false)
	return n
}

// sequence counts the alternatives from i on. Inside braces, it stops at the next comma or closing
// brace, and returns its position.
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
