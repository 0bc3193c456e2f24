package rewrite

import (
	"bytes"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// mode looks at what kind of entry the change makes, and at its permission.
func (j *judge) mode(f change.File) {
	before, after := f.Before, f.After
	if before.Exists() && after.Exists() && before.Regular() != after.Regular() && before.Mode != change.ModeSubmodule && after.Mode != change.ModeSubmodule {
		j.add("type", contract.SeverityMedium, f.Path, 0, "%s becomes %s instead of %s; check that this is meant", change.Clean(f.Path), kind(after), kind(before))
	}
	switch {
	case after.Mode == change.ModeExecutable && before.Mode != change.ModeExecutable && !script(f.Path, after):
		j.add("executable", contract.SeverityMedium, f.Path, 0, "%s becomes executable, but is not a script; remove the permission", change.Clean(f.Path))
	case before.Mode == change.ModeExecutable && after.Mode == change.ModeFile:
		j.add("executable", contract.SeverityMinor, f.Path, 0, "%s is not executable any more; check that nothing runs it", change.Clean(f.Path))
	}
}

func kind(v change.Version) string {
	if v.Mode == change.ModeLink {
		return "a symbolic link"
	}
	return "a file"
}

// scriptExtensions are those of scripts of systems without #!.
var scriptExtensions = []string{".bat", ".cmd", ".ps1", ".exe", ".com"}

// script reports whether an executable file can be run. A binary file has its own rule.
func script(name string, v change.Version) bool {
	return v.Binary() || bytes.HasPrefix(v.Content, []byte("#!")) || slices.Contains(scriptExtensions, strings.ToLower(path.Ext(name)))
}

// content looks for new content that no one can read in a review.
func (j *judge) content(f change.File) {
	v := f.After
	if !v.Binary() || v.Digest == f.Before.Digest {
		return
	}
	verb := "is new and"
	if f.Before.Exists() {
		verb = "is changed and"
	}
	name := change.Clean(f.Path)
	switch {
	case v.Unread && media(f.Path):
		j.add("media", contract.SeverityMinor, f.Path, 0, "%s %s has %d bytes, too many to be examined; check that it is wanted", name, verb, v.Size)
	case v.Unread:
		j.add("unread-file", contract.SeverityMedium, f.Path, 0, "%s %s has %d bytes, too many to be examined; look at it", name, verb, v.Size)
	case program(f.Path, v.Content):
		j.add("program", contract.SeverityMajor, f.Path, 0, "%s %s contains machine code; build it from its source instead", name, verb)
	case media(f.Path) && mediaContent(v.Content):
		j.add("media", contract.SeverityMinor, f.Path, 0, "%s %s is not text; check that it is wanted", name, verb)
	default:
		j.add("binary", contract.SeverityMedium, f.Path, 0, "%s %s is not text; check where it is from and what it contains", name, verb)
	}
}

// programMagic are the first bytes of files that a machine or a virtual machine runs or loads.
var programMagic = [][]byte{
	[]byte("\x7fELF"), []byte("MZ"), []byte("\x00asm"), []byte("dex\n"), []byte("!<arch>\n"), []byte("BC\xc0\xde"),
	{0xfe, 0xed, 0xfa, 0xce}, {0xfe, 0xed, 0xfa, 0xcf}, {0xce, 0xfa, 0xed, 0xfe}, {0xcf, 0xfa, 0xed, 0xfe}, {0xca, 0xfe, 0xba, 0xbe},
}

// programExtensions are those of programs in archives, or without first bytes of their own.
var programExtensions = []string{
	".jar", ".war", ".ear", ".aar", ".apk", ".whl", ".egg", ".nupkg", ".pyc", ".pyo", ".so", ".dll", ".dylib", ".exe", ".msi", ".deb", ".rpm", ".node", ".beam",
}

func program(name string, content []byte) bool {
	return slices.Contains(programExtensions, strings.ToLower(path.Ext(name))) ||
		slices.ContainsFunc(programMagic, func(m []byte) bool { return bytes.HasPrefix(content, m) })
}

var mediaExtensions = []string{
	".png", ".jpg", ".jpeg", ".gif", ".ico", ".webp", ".bmp", ".tif", ".tiff", ".avif", ".icns", ".svg", ".pdf", ".ai", ".psd", ".sketch", ".fig",
	".woff", ".woff2", ".ttf", ".otf", ".eot", ".mp3", ".mp4", ".mov", ".avi", ".wav", ".ogg", ".webm", ".flac", ".m4a", ".m4v",
}

func media(name string) bool {
	return slices.Contains(mediaExtensions, strings.ToLower(path.Ext(name)))
}

// mediaContent reports whether the content is not that of an archive or a text with another name.
func mediaContent(content []byte) bool {
	kind := http.DetectContentType(content)
	major, _, _ := strings.Cut(kind, "/")
	return slices.Contains([]string{"image", "audio", "video", "font"}, major) ||
		slices.Contains([]string{"application/pdf", "application/octet-stream", "application/ogg", "application/postscript", "application/vnd.ms-fontobject"}, kind)
}
