package checks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// maxScanned limits the bytes that are read from a file in which a scan found something.
const maxScanned = 8 << 20

// files reads files of a checkout, each once.
type files struct {
	root *os.Root
	read map[string][]string
}

// lines returns the lines of a file, nil if it cannot be read.
func (f *files) lines(p string) []string {
	if lines, ok := f.read[p]; ok {
		return lines
	}
	var lines []string
	if data, err := output.ReadRegular(f.root, p, maxScanned); err == nil {
		lines = strings.Split(string(data), "\n")
	}
	f.read[p] = lines
	return lines
}

// locating returns an audit that finds the lines on which manifests and lock files name vulnerable
// dependencies, and reports the files that can make the scan ignore findings.
func locating(manifests []string, settings ...string) func(*os.Root, output.Paths, *output.Results) {
	return func(root *os.Root, _ output.Paths, r *output.Results) {
		f := files{root: root, read: map[string][]string{}}
		for n := range r.Problems {
			if p := &r.Problems[n]; p.Package != "" && p.Line == 0 {
				f.locate(p, manifests)
			}
		}
		f.reportSettings(r, settings)
	}
}

// locate finds the first line that names the package of a problem.
func (f *files) locate(p *output.Problem, manifests []string) {
	if p.Path != "" {
		manifests = []string{p.Path}
	}
	for _, m := range manifests {
		if p.Path == "" && f.lines(m) != nil {
			p.Path = m
		}
	}
	for _, naming := range namings(p.Package) {
		for _, m := range manifests {
			for n, line := range f.lines(m) {
				if naming.MatchString(output.Bound(line, maxNamingLine)) {
					p.Path, p.Line = m, n+1
					return
				}
			}
		}
	}
}

// maxNamingLine limits the part of a line that is searched for a name.
const maxNamingLine = 2000

var separators = regexp.MustCompile(`[-_.]+`)

// namings returns patterns for the lines that name a package in a manifest or lock file, from the
// entry of the package itself to any mention. Python's names are equal regardless of case and
// separators.
func namings(pkg string) []*regexp.Regexp {
	if pkg == "stdlib" {
		return []*regexp.Regexp{regexp.MustCompile(`^toolchain\s`), regexp.MustCompile(`^go\s`)}
	}
	var name strings.Builder
	at := 0
	for _, sep := range separators.FindAllStringIndex(pkg, -1) {
		name.WriteString(regexp.QuoteMeta(pkg[at:sep[0]]) + `[-_.]+`)
		at = sep[1]
	}
	name.WriteString(regexp.QuoteMeta(pkg[at:]))
	group, artifact, maven := strings.Cut(pkg, ":")
	var out []*regexp.Regexp
	for _, pattern := range []string{
		`^\s*name\s*=\s*"%s"`,                              // Cargo.lock, poetry.lock, uv.lock
		`^\s*"(?:.*/)?node_modules/%s"\s*:`,                // package-lock.json
		`^\s*["']?/?%s@`,                                   // yarn.lock, pnpm-lock.yaml
		`^\s*(?:require\s+)?["']?%s(?:["'\s=<>~!;\[(:]|$)`, // go.mod, requirements.txt, Gemfile.lock, package.json
		`(?:^|[^\w./@-])%s(?:$|[^\w./-])`,
	} {
		out = append(out, regexp.MustCompile(`(?i)`+fmt.Sprintf(pattern, name.String())))
	}
	if maven {
		out = append(out, regexp.MustCompile(`<artifactId>\s*`+regexp.QuoteMeta(artifact)+`\s*<`), regexp.MustCompile(regexp.QuoteMeta(group+":"+artifact)+`:`))
	}
	return out
}

// RuleScanSettings marks the finding that a scan follows a file of the repository, which can make it
// ignore findings. The message contains the digest of the file, so that it is new after a change.
const RuleScanSettings = "scan-settings"

func (f *files) reportSettings(r *output.Results, settings []string) {
	seen := map[string]bool{}
	for _, name := range settings {
		lines := f.lines(name)
		if lines == nil || seen[name] {
			continue
		}
		seen[name] = true
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		r.Problems = append(r.Problems, output.Problem{
			Level: output.Warning, Path: name, Rule: RuleScanSettings,
			Message: "the scan follows this file, which can make it ignore findings (SHA-256 " + hex.EncodeToString(sum[:6]) + ")",
		})
	}
}

// secretsAllowed is the comment with which gitleaks ignores a secret.
const secretsAllowed = "gitleaks:allow"

// secretsFound completes the findings of gitleaks. Each gets a fingerprint of the secret, so that one
// that is replaced by another is not mistaken for the same. A secret that a comment allows is minor
// instead of hidden, because the comment may be part of the change under review.
func secretsFound(root *os.Root, _ output.Paths, r *output.Results) {
	f := files{root: root, read: map[string][]string{}}
	for n := range r.Problems {
		p := &r.Problems[n]
		lines := f.lines(p.Path)
		if p.Secret == nil || p.Line < 1 || p.Line > len(lines) {
			continue
		}
		found := lines[p.Line-1 : max(p.Line, min(p.Secret.EndLine, len(lines)))]
		p.Message += " (fingerprint " + fingerprint(p.Rule, found, p.Secret.Entropy) + ")"
		if strings.Contains(strings.Join(found, "\n"), secretsAllowed) {
			p.Level, p.Severity, p.Message = output.Note, "", "suppressed: "+p.Message
		}
	}
	f.reportSettings(r, []string{".gitleaks.toml", ".gitleaksignore"})
}

// fingerprintBytes is short, so that a fingerprint does not confirm a guess at a secret.
const fingerprintBytes = 2

// fingerprint identifies a secret regardless of its place. Because gitleaks does not reveal the
// secret, it is the word with the reported entropy; if there is none, it is the whole text.
func fingerprint(rule string, lines []string, entropy float32) string {
	secret := ""
	if len(lines) == 1 {
		secret = wordOfEntropy(output.Bound(lines[0], maxSecretLine), entropy)
	}
	if secret == "" {
		secret = strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
	}
	sum := sha256.Sum256([]byte(rule + "\x00" + secret))
	return hex.EncodeToString(sum[:fingerprintBytes])
}

// maxSecretLine limits the part of a line that is searched for a secret.
const maxSecretLine = 16 << 10

// secretWords split a line into words that may be secrets, from the longest on.
var secretWords = []*regexp.Regexp{regexp.MustCompile("[^\\s\"'`]+"), regexp.MustCompile("[^\\s\"'`,;(){}<>\\[\\]]+"), regexp.MustCompile("[^\\s\"'`,;(){}<>\\[\\]:=]+")}

// wordOfEntropy returns the word of a line that has an entropy, or "".
func wordOfEntropy(line string, entropy float32) string {
	const tolerance = 1e-4
	for _, words := range secretWords {
		for _, word := range words.FindAllString(line, -1) {
			if math.Abs(float64(shannon(word)-entropy)) < tolerance {
				return word
			}
		}
	}
	return ""
}

// shannon returns the entropy of a text as gitleaks computes it.
func shannon(text string) float32 {
	counts := map[rune]int{}
	for _, r := range text {
		counts[r]++
	}
	entropy := 0.0
	for _, n := range counts {
		share := float64(n) / float64(len(text))
		entropy -= share * math.Log2(share)
	}
	return float32(entropy)
}
