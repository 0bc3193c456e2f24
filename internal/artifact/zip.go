package artifact

import (
	"archive/zip"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entry is one file of a zip archive: its name and its blob.
type Entry struct {
	Name   string
	Digest string
}

// Zip streams blobs to w as a zip archive. Equal entries result in equal bytes: they are sorted and
// have no timestamps. Names are changed where necessary to be safe to unpack anywhere; if two would
// collide, the later one gets a number. After an error, the archive in w is incomplete.
func (s *Store) Zip(ctx context.Context, w io.Writer, entries []Entry) error {
	archive := zip.NewWriter(w)
	for _, e := range safeEntries(entries) {
		if err := s.zipOne(ctx, archive, e); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("finish the zip archive: %w", err)
	}
	return nil
}

func (s *Store) zipOne(ctx context.Context, archive *zip.Writer, e Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := s.Reader(ctx, e.Digest)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	f, err := archive.CreateHeader(&zip.FileHeader{Name: e.Name, Method: method(e.Name)})
	if err != nil {
		return fmt.Errorf("add %s to the zip archive: %w", e.Name, err)
	}
	if _, err := io.Copy(f, &contextReader{ctx, r}); err != nil {
		return fmt.Errorf("add %s to the zip archive: %w", e.Name, err)
	}
	return nil
}

// compressed has the extensions of formats that cannot be compressed further.
var compressed = []string{".zip", ".png", ".jpg", ".jpeg", ".webp", ".webm", ".mp4", ".gz", ".zst"}

func method(name string) uint16 {
	if slices.Contains(compressed, strings.ToLower(path.Ext(name))) {
		return zip.Store
	}
	return zip.Deflate
}

// safeEntries sorts entries and gives each a safe, unique name.
func safeEntries(entries []Entry) []Entry {
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, Entry{Name: safeName(e.Name), Digest: e.Digest})
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	taken := names{}
	for i := range out {
		out[i].Name = taken.add(out[i].Name)
	}
	return out
}

const maxSegment = 200 // bytes; file systems allow 255, a number may be added

// safeName returns a relative path without dot segments, drives, control characters and names that
// Windows rejects.
func safeName(name string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		if part = safeSegment(part); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "unnamed"
	}
	return strings.Join(parts, "/")
}

func safeSegment(part string) string {
	part = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || strings.ContainsRune(`<>:"|?*`, r) {
			return '_'
		}
		return r
	}, part)
	// Windows removes trailing dots and spaces, so names could collide.
	part = strings.TrimRight(part, ". ")
	for len(part) > maxSegment {
		_, size := utf8.DecodeLastRuneInString(part)
		part = part[:len(part)-size]
	}
	return strings.TrimRight(part, ". ")
}

// names has the paths in use, in lower case for case-insensitive file systems: true for a file,
// false for the directory of a file.
type names map[string]bool

// add reserves a name, changed as little as necessary to avoid conflicts with existing files and
// directories.
func (n names) add(name string) string {
	dir := ""
	segments := strings.Split(name, "/")
	for _, s := range segments[:len(segments)-1] {
		dir = n.free(path.Join(dir, s), func(isFile, found bool) bool { return found && isFile })
		n[strings.ToLower(dir)] = false
	}
	file := n.free(path.Join(dir, path.Base(name)), func(_, found bool) bool { return found })
	n[strings.ToLower(file)] = true
	return file
}

// free returns the name, or the first numbered variant that is not taken.
func (n names) free(name string, taken func(isFile, found bool) bool) string {
	candidate := name
	for i := 2; ; i++ {
		isFile, found := n[strings.ToLower(candidate)]
		if !taken(isFile, found) {
			return candidate
		}
		ext := path.Ext(name)
		if ext == path.Base(name) { // .env has no extension
			ext = ""
		}
		candidate = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), i, ext)
	}
}
