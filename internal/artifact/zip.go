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

// Entry is one file of a zip: the name that users see and its blob.
type Entry struct {
	Name   string
	Digest string
}

// Zip writes blobs as a zip archive to w while it reads them. The same entries give the
// same bytes: they are sorted and carry no times. Names are made safe to unpack
// anywhere; of two that would collide, the later gets a number. After an error the
// archive in w cannot be opened.
func (s *Store) Zip(ctx context.Context, w io.Writer, entries []Entry) error {
	archive := zip.NewWriter(w)
	for _, e := range safeEntries(entries) {
		if err := s.zipOne(ctx, archive, e); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("finish the zip: %w", err)
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
		return fmt.Errorf("add %s to the zip: %w", e.Name, err)
	}
	if _, err := io.Copy(f, &contextReader{ctx, r}); err != nil {
		return fmt.Errorf("add %s to the zip: %w", e.Name, err)
	}
	return nil
}

// compressed are the extensions of formats that do not get smaller.
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

// safeName makes a relative path without dots, drives, control characters and what
// Windows refuses.
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
	// Windows drops dots and spaces at the end, which would make names collide.
	part = strings.TrimRight(part, ". ")
	for len(part) > maxSegment {
		_, size := utf8.DecodeLastRuneInString(part)
		part = part[:len(part)-size]
	}
	return strings.TrimRight(part, ". ")
}

// names remembers which paths are taken, folded to lower case, because file systems
// that ignore case must not lose files either: true for a file, false for the folder of
// one.
type names map[string]bool

// add takes a name, changed as little as necessary to replace no file, be in the place
// of no folder and be inside no file.
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
