package rewrite

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// headBytes is the part of a file that contains its notices.
const headBytes = 4 << 10

func head(v change.Version) []byte {
	if !v.Regular() || v.Binary() {
		return nil
	}
	return v.Content[:min(len(v.Content), headBytes)]
}

// sourceSet is what a change has besides generated files.
type sourceSet struct {
	names map[string]bool // the names of all changed files
	any   bool            // there is another file that can be a source
}

// sources lists the changed files from which others can be generated.
func (j *judge) sources() sourceSet {
	s := sourceSet{names: map[string]bool{}}
	for _, f := range j.Files {
		for _, p := range f.Paths() {
			s.names[path.Base(p)] = true
		}
		if !extract.SaysGenerated(head(f.Before)) && !extract.SaysGenerated(head(f.After)) {
			s.any = true
		}
	}
	return s
}

// namedSource is the source that the head of a generated file names.
var namedSource = regexp.MustCompile(`(?im)^[^\n]{0,80}?\b(?:source|sources|from|input)\b[: ]\s*["'\x60]?([\w@./-]{1,200}\.[a-z]\w{0,10})\b`)

// lockFile matches lists of dependencies, in lower case. Tools generate them from the manifest and from
// what registries contain, so that they also change alone.
var lockFile = regexp.MustCompile(`\.lock$|[-.]lock\.[^/]*$|(?:^|/)go\.sum$|requirements[^.]*\.txt$|\.resolved$|\.lockfile$`)

// generated looks for a generated file that changes although its source does not.
func (j *judge) generated(f change.File, s sourceSet) {
	if f.Deleted() || f.Added() || f.Before.Digest == f.After.Digest || lockFile.MatchString(strings.ToLower(f.Path)) || !extract.SaysGenerated(head(f.Before)) {
		return
	}
	name := change.Clean(f.Path)
	if !extract.SaysGenerated(head(f.After)) {
		j.add("generated", contract.SeverityMinor, f.Path, 0, "%s does not say any more that it is generated; check that it is not generated again", name)
		return
	}
	if m := namedSource.FindSubmatch(head(f.After)); m != nil {
		if source := path.Base(string(m[1])); !s.names[source] && source != path.Base(f.Path) && !s.any {
			j.add("generated", contract.SeverityMedium, f.Path, 0, "%s is generated from %s, which does not change; change that instead", name, change.Clean(string(m[1])))
		}
		return
	}
	if !s.any {
		j.add("generated", contract.SeverityMedium, f.Path, 0, "%s is generated, but the change contains nothing else; change its source instead", name)
	}
}

// manifests name the dependencies whose code is in vendored directories.
var manifests = []string{
	"go.mod", "go.sum", "modules.txt", "package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bower.json", "cargo.toml", "cargo.lock",
	"composer.json", "composer.lock", "gemfile", "gemfile.lock", "podfile", "podfile.lock", "cartfile", "cartfile.resolved", "vendor.txt", "vendor.conf",
	"godeps.json", "gopkg.toml", "gopkg.lock", "pyproject.toml", "uv.lock", "poetry.lock", ".yarnrc.yml", "deps", "manifest.txt", "conanfile.txt",
}

// vendorDirs are the directories with code of others. Unlike the index, this does not include what
// tools make.
var vendorDirs = []string{
	"vendor", "_vendor", "node_modules", "bower_components", "third_party", "third-party", "thirdparty", "3rdparty", "godeps", "pods", "carthage",
	"site-packages", "dist-packages", "jspm_packages",
}

// vendorDir returns the vendored directory that contains a path, or "".
func vendorDir(name string) string {
	at := 0
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		at += len(part)
		if slices.Contains(vendorDirs, strings.ToLower(part)) {
			return name[:at]
		}
		at++
	}
	return ""
}

// vendored looks for changes of code that belongs to others: one finding for each directory.
func (j *judge) vendored() {
	updated := slices.ContainsFunc(j.Files, func(f change.File) bool {
		return slices.ContainsFunc(f.Paths(), func(p string) bool { return slices.Contains(manifests, strings.ToLower(path.Base(p))) })
	})
	dirs, order := map[string]int{}, []string{}
	first := map[string]string{}
	for _, f := range j.Files {
		for _, p := range f.Paths() {
			dir := vendorDir(p)
			if dir == "" || f.Before.Digest == f.After.Digest && vendorDir(f.OldPath()) == vendorDir(f.Path) {
				continue
			}
			if dirs[dir]++; dirs[dir] == 1 {
				order, first[dir] = append(order, dir), p
			}
		}
	}
	for _, dir := range order {
		if updated {
			j.add("vendored", contract.SeverityMinor, first[dir], 0, "the code of others in %s changes (%d files), and so does a manifest; check that they agree",
				change.Clean(dir), dirs[dir])
			continue
		}
		j.add("vendored", contract.SeverityMedium, first[dir], 0, "the code of others in %s changes (%d files), but no manifest does; update the dependency instead",
			change.Clean(dir), dirs[dir])
	}
}

// licenceName matches the names of licences, in lower case.
var licenceName = regexp.MustCompile(`^(?:un)?licen[cs]e[s]?(?:[-_.][\w.-]*)?$|^copying(?:[-_.][\w.-]*)?$|^copyright(?:\.(?:txt|md))?$|^notice(?:\.(?:txt|md))?$`)

// codeExtensions are those of files about licences that are not licences themselves.
var codeExtensions = []string{
	".go", ".py", ".rb", ".js", ".ts", ".tsx", ".jsx", ".java", ".kt", ".rs", ".c", ".h", ".cc", ".cpp", ".cs", ".php", ".sh", ".yml", ".yaml", ".json", ".toml",
	".xml", ".html", ".css", ".swift", ".ex", ".exs", ".erb", ".vue", ".snap", ".gradle",
}

// isLicence reports whether a file contains a licence of the repository or of a part of it.
func isLicence(name string) bool {
	lower := strings.ToLower(name)
	base := path.Base(lower)
	if slices.Contains(codeExtensions, path.Ext(base)) {
		return false
	}
	if dir, _, _ := strings.Cut(lower, "/"); dir == "docs" || dir == "doc" {
		return false // a page that shows the licence
	}
	return licenceName.MatchString(base) || strings.HasPrefix(lower, "licenses/") || strings.HasPrefix(lower, "licences/")
}

// licence looks for licences, and notices of them, that change or disappear.
func (j *judge) licence(f change.File) {
	name := change.Clean(f.Path)
	switch {
	case vendorDir(f.OldPath()) != "":
	case isLicence(f.OldPath()) && f.Before.Exists():
		switch {
		case f.Deleted():
			j.add("licence", contract.SeverityMajor, f.Path, 0, "the licence %s is deleted; only its owner may decide that", name)
		case f.Before.Digest == f.After.Digest:
			j.add("licence", contract.SeverityMinor, f.Path, 0, "the licence %s was %s; check that it is found there", name, change.Clean(f.OldPath()))
		case !f.After.Regular() || !sameButYears(f):
			j.add("licence", contract.SeverityMajor, f.Path, 0, "the licence %s changes; only its owner may decide that", name)
		default:
			j.add("licence", contract.SeverityMinor, f.Path, 0, "the licence %s has other years; check them", name)
		}
		return
	case isLicence(f.Path) && f.Added():
		j.add("licence", contract.SeverityMinor, f.Path, 0, "the licence %s is new; check what it covers", name)
		return
	}
	if f.Deleted() || f.Added() || f.Before.Digest == f.After.Digest {
		return
	}
	if what := lostNotice(head(f.Before), head(f.After)); what != "" {
		j.add("licence-header", contract.SeverityMedium, f.Path, 0, "%s loses its notice %q; restore it", name, change.Clean(what))
	}
}

var (
	years      = regexp.MustCompile(`\b(?:19|20)\d\d\b(?:\s*[-–,]\s*(?:\b(?:19|20)\d\d\b|present|now))*`)
	spaces     = regexp.MustCompile(`\s+`)
	noticeLine = regexp.MustCompile(`(?i)SPDX-License-Identifier:|\bcopyright\b[^=\n]{0,40}(?:\b(?:19|20)\d\d\b|\(c\)|©)|\((?:c)\)\s*(?:19|20)\d\d|licensed under the\b`)
)

// sameButYears reports whether two versions of a licence differ only in years and white space.
func sameButYears(f change.File) bool {
	if f.Before.Binary() || f.After.Binary() {
		return false
	}
	plain := func(content []byte) string {
		return strings.TrimSpace(spaces.ReplaceAllString(years.ReplaceAllString(string(content), "YEAR"), " "))
	}
	return plain(f.Before.Content) == plain(f.After.Content)
}

// noticeLines is the number of lines at the start of a file in which a notice is that of the file.
const noticeLines = 30

// lostNotice returns a notice of the old head that the new version does not have, or "". Other years,
// comments and spaces do not matter.
func lostNotice(before, after []byte) string {
	before = firstLines(before)
	if bytes.HasPrefix(after, before) || !noticeLine.Match(before) {
		return ""
	}
	kept := ""
	for line := range strings.Lines(string(before)) {
		if !noticeLine.MatchString(line) || bytes.Contains(after, []byte(line)) {
			continue
		}
		if kept == "" {
			kept = plainNotice(string(bytes.ToValidUTF8(after, nil)))
		}
		if want := plainNotice(line); want != "" && !strings.Contains(kept, want) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// firstLines returns the lines in which a notice is that of the file.
func firstLines(text []byte) []byte {
	end := 0
	for range noticeLines {
		i := bytes.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

var notWords = regexp.MustCompile(`[^\pL\pN]+`)

// plainNotice reduces a notice to its words without years.
func plainNotice(text string) string {
	text = years.ReplaceAllString(text, " ")
	return strings.TrimSpace(notWords.ReplaceAllString(strings.ToLower(text), " "))
}
