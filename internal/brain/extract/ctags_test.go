package extract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

// kinds of universal-ctags that have a counterpart here. Fields, local variables, members of
// enumerations and parameters are left out on both sides.
var ctagsKinds = map[string]bool{
	"func": true, "function": true, "method": true, "methodSpec": true, "class": true, "struct": true, "interface": true, "enum": true, "enumeration": true,
	"type": true, "typedef": true, "trait": true, "union": true, "macro": true, "module": true, "namespace": true,
	"singletonMethod": true, "prototype": true, "record": true, "annotation": true, "object": true, "typealias": true,
	"generator": true,
}

// hasCounterpart says whether a tag is of a kind that has a counterpart.
func hasCounterpart(kind, lang, name string) bool {
	switch {
	case strings.HasPrefix(strings.ToLower(strings.TrimPrefix(name, "__")), "anon"), name == "<lambda>":
		return false
	case kind == "member":
		return lang == "python"
	case kind == "alias":
		return lang == "ruby" || lang == "cpp"
	}
	return ctagsKinds[kind]
}

var ourKinds = map[extract.Kind]bool{
	extract.KindFunction: true, extract.KindMethod: true, extract.KindClass: true, extract.KindStruct: true, extract.KindInterface: true,
	extract.KindEnum: true, extract.KindType: true, extract.KindModule: true, extract.KindMacro: true,
}

type definition struct {
	name string
	line int
}

// TestAgreementWithCtags compares the definitions of whole repositories with those that universal-ctags
// finds, by name and line, and the speeds. BRAIN_REPOSITORIES names the repositories' directories,
// separated by colons; the results are in docs/BRAIN.md.
func TestAgreementWithCtags(t *testing.T) {
	list := os.Getenv("BRAIN_REPOSITORIES")
	if list == "" {
		t.Skip("BRAIN_REPOSITORIES names no repositories to compare")
	}
	for _, dir := range strings.Split(list, ":") {
		byLang := map[string][]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				head := content[:min(len(content), 512)]
				rel := strings.TrimPrefix(path, dir+"/")
				if ok, _ := extract.Wanted(rel, int64(len(content)), head, extract.DefaultMaxFileSize); !ok {
					return nil
				}
				lang := extract.File(path, head).Lang
				if slices.Contains([]string{"go", "javascript", "typescript", "python", "java", "rust", "ruby", "c", "cpp", "csharp", "php", "kotlin", "shell"}, lang) {
					byLang[lang] = append(byLang[lang], path)
				}
			}
			return err
		}))
		for lang, files := range byLang {
			if len(files) > 20 {
				compare(t, dir, lang, files)
			}
		}
	}
}

func compare(t *testing.T, dir, lang string, files []string) {
	t.Helper()
	contents := make([][]byte, len(files))
	size := 0
	for i, f := range files {
		var err error
		contents[i], err = os.ReadFile(f)
		require.NoError(t, err)
		size += len(contents[i])
	}
	ours, theirs := map[string]map[definition]bool{}, map[string]map[definition]bool{}
	began := time.Now()
	extracts := make([]extract.Extract, len(files))
	for i, f := range files {
		extracts[i] = extract.File(f, contents[i])
	}
	mine := time.Since(began)
	for i, f := range files {
		ours[f] = map[definition]bool{}
		for _, s := range extracts[i].Symbols {
			if ourKinds[s.Kind] {
				ours[f][definition{s.Name, s.Line}] = true
			}
		}
	}
	began = time.Now()
	cmd := exec.CommandContext(t.Context(), "ctags", "--output-format=json", "--fields=+nK", "--kinds-C=+p", "--kinds-C++=+p", "-L", "-", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n"))
	out, err := cmd.Output()
	require.NoError(t, err)
	other := time.Since(began)
	for line := range bytes.Lines(out) {
		var tag struct {
			Name, Path, Kind string
			Line             int
		}
		require.NoError(t, json.Unmarshal(line, &tag))
		if hasCounterpart(tag.Kind, lang, tag.Name) {
			if theirs[tag.Path] == nil {
				theirs[tag.Path] = map[definition]bool{}
			}
			theirs[tag.Path][definition{strings.ReplaceAll(tag.Name, "operator ", "operator"), tag.Line}] = true
		}
	}
	both, onlyOurs, onlyTheirs := 0, 0, 0
	for _, f := range files {
		for d := range ours[f] {
			if theirs[f][d] {
				both++
				continue
			}
			onlyOurs++
			show(lang, "ours", f, d, onlyOurs)
		}
		for d := range theirs[f] {
			if !ours[f][d] {
				onlyTheirs++
				show(lang, "theirs", f, d, onlyTheirs)
			}
		}
	}
	t.Logf("| %s | %s | %d | %.1f | %d | %.1f %% | %.1f %% | %.0f | %.0f |", filepath.Base(dir), lang, len(files), float64(size)/1e6, both,
		100*float64(both)/float64(max(both+onlyTheirs, 1)), 100*float64(both)/float64(max(both+onlyOurs, 1)),
		float64(size)/1e6/mine.Seconds(), float64(size)/1e6/other.Seconds())
}

func show(lang, side, file string, d definition, n int) {
	if os.Getenv("BRAIN_SHOW") == lang && n%37 < 3 {
		fmt.Println(side, file, d.line, d.name)
	}
}
