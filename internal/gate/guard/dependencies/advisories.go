package dependencies

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	loose "github.com/hashicorp/go-version"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Advisories knows vulnerabilities of packages. It is safe for concurrent use.
type Advisories interface {
	// Affecting returns the advisories about a version of a package, in order of their identifiers. The
	// name is in the form in which the ecosystem compares names.
	Affecting(e Ecosystem, name, version string) []Advisory
	// Digest identifies all advisories by their contents.
	Digest() string
}

// Advisory is one known vulnerability.
type Advisory struct {
	ID, Summary string
	Severity    contract.Severity
	Fixed       string // a version; "": none is known
}

// The limits of an advisory directory.
const (
	MaxAdvisories    = 300_000
	MaxAdvisoryBytes = 4 << 20
)

// osv is an entry in the OSV format.
type osv struct {
	ID        string     `json:"id"`
	Summary   string     `json:"summary"`
	Details   string     `json:"details"`
	Withdrawn string     `json:"withdrawn"`
	Affected  []affected `json:"affected"`
	Severity  []struct {
		Score string `json:"score"`
	} `json:"severity"`
	Database struct {
		Severity json.RawMessage `json:"severity"`
	} `json:"database_specific"`
}

type affected struct {
	Package struct {
		Ecosystem string `json:"ecosystem"`
		Name      string `json:"name"`
	} `json:"package"`
	Ranges   []versionRange `json:"ranges"`
	Versions []string       `json:"versions"`
}

type versionRange struct {
	Type   string  `json:"type"`
	Events []event `json:"events"`
}

type event struct {
	Introduced   string `json:"introduced"`
	Fixed        string `json:"fixed"`
	LastAffected string `json:"last_affected"`
}

// directory is an advisory directory in memory.
type directory struct {
	byName map[string][]entry // ecosystem, a zero byte, normal name
	digest string
}

// Digest returns the SHA-256 of the names and contents of the files, in hexadecimal.
func (d *directory) Digest() string { return d.digest }

type entry struct {
	advisory Advisory
	affected affected
}

// LoadAdvisories reads a directory of advisories in the OSV format, one in each .json file, at any depth.
// Links are not followed. It fails on a file that is not an advisory.
func LoadAdvisories(dir string) (Advisories, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the advisory directory %s: %w", dir, err)
	}
	defer root.Close()
	d := &directory{byName: map[string][]entry{}}
	count, sum := 0, sha256.New()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(path, ".json") {
			return err
		}
		if count++; count > MaxAdvisories {
			return fmt.Errorf("it has more than %d advisories", MaxAdvisories)
		}
		return d.load(root, path, sum)
	})
	if err != nil {
		return nil, fmt.Errorf("read the advisory directory %s: %w", dir, err)
	}
	for _, all := range d.byName {
		slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.advisory.ID, b.advisory.ID) })
	}
	d.digest = hex.EncodeToString(sum.Sum(nil))
	return d, nil
}

// load reads one advisory, and adds it to the digest.
func (d *directory) load(root *os.Root, path string, sum io.Writer) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, MaxAdvisoryBytes+1))
	if err != nil {
		return err
	}
	if len(content) > MaxAdvisoryBytes {
		return fmt.Errorf("%s has more than %d bytes", path, MaxAdvisoryBytes)
	}
	fmt.Fprintf(sum, "%d:%s%d:", len(path), path, len(content))
	_, _ = sum.Write(content) // a hash never fails
	var o osv
	if err := json.Unmarshal(content, &o); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if o.ID == "" {
		return fmt.Errorf("%s: %w", path, errors.New("it is not an advisory in the OSV format: it has no id"))
	}
	if o.Withdrawn != "" {
		return nil
	}
	vectors := make([]string, 0, len(o.Severity))
	for _, s := range o.Severity {
		vectors = append(vectors, s.Score)
	}
	var word string
	if json.Unmarshal(o.Database.Severity, &word) != nil {
		word = ""
	}
	title, _, _ := strings.Cut(cmp.Or(o.Summary, o.Details, "no summary"), "\n")
	for _, a := range o.Affected {
		ecosystem, _, _ := strings.Cut(a.Package.Ecosystem, ":")
		e := Ecosystem(ecosystem)
		key := ecosystem + "\x00" + normal(e, a.Package.Name)
		d.byName[key] = append(d.byName[key], entry{
			Advisory{ID: o.ID, Summary: title, Severity: cmp.Or(output.Rating(o.ID, word, vectors...), contract.SeverityMedium), Fixed: a.fixed()}, a,
		})
	}
	return nil
}

// fixed returns the last version that an advisory names as fixed.
func (a affected) fixed() (version string) {
	for _, r := range a.Ranges {
		for _, e := range r.Events {
			if e.Fixed != "" && r.Type != "GIT" {
				version = e.Fixed
			}
		}
	}
	return version
}

// Affecting returns the advisories about a version.
func (d *directory) Affecting(e Ecosystem, name, version string) []Advisory {
	var out []Advisory
	for _, x := range d.byName[string(e)+"\x00"+name] {
		if x.affected.has(e, version) {
			out = append(out, x.advisory)
		}
	}
	return out
}

// has reports whether a version is affected.
func (a affected) has(e Ecosystem, version string) bool {
	if slices.Contains(a.Versions, version) || slices.Contains(a.Versions, strings.TrimPrefix(version, "v")) {
		return true
	}
	for _, r := range a.Ranges {
		if r.Type == "GIT" {
			continue
		}
		if r.has(func(other string) (int, bool) { return compareVersions(e, version, other) }) {
			return true
		}
	}
	return false
}

// has evaluates the events of a range, which are in order of their versions.
func (r versionRange) has(compare func(string) (int, bool)) bool {
	inside := false
	for _, e := range r.Events {
		switch {
		case e.Introduced == "0":
			inside = true
		case e.Introduced != "":
			if c, ok := compare(e.Introduced); ok && c >= 0 {
				inside = true
			}
		case e.Fixed != "":
			if c, ok := compare(e.Fixed); !ok || c >= 0 {
				inside = false
			}
		case e.LastAffected != "":
			if c, ok := compare(e.LastAffected); !ok || c > 0 {
				inside = false
			}
		}
	}
	return inside
}

// compareVersions compares two versions by the rules of an ecosystem. ok is false if one cannot be read.
func compareVersions(e Ecosystem, a, b string) (c int, ok bool) {
	if e == NPM || e == Crates || e == Go {
		x, err := semver.NewVersion(a)
		y, err2 := semver.NewVersion(b)
		if err != nil || err2 != nil {
			return 0, false
		}
		return x.Compare(y), true
	}
	x, err := loose.NewVersion(a)
	y, err2 := loose.NewVersion(b)
	if err != nil || err2 != nil {
		return 0, false
	}
	return x.Compare(y), true
}

var versionText = regexp.MustCompile(`v?\d+(?:\.\d+)*(?:[-.+]?[A-Za-z0-9.+-]+)?`)

// firstVersion returns the version that a constraint names first, which is the lowest that it allows in
// nearly all: ^1.2.3, ~> 1.2, >=1.2,<2.
func firstVersion(constraint string) string {
	const most = 200
	if len(constraint) > most || strings.HasPrefix(strings.TrimSpace(constraint), "<") {
		return ""
	}
	return strings.TrimRight(versionText.FindString(constraint), ".-+")
}
