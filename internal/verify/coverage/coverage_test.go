package coverage

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

var update = flag.Bool("update", false, "write golden files instead of comparing them")

// open returns an empty profile of a directory, and the directory.
func open(t *testing.T, dir string) (*Profile, *os.Root) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return New(root), root
}

// tree returns a profile of a directory with files.
func tree(t *testing.T, files map[string]string) (*Profile, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return open(t, dir)
}

// text shows a profile: per file, the executed lines and the others.
func text(p *Profile) string {
	var names []string
	for name := range p.files {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		f := p.changed(name, []contract.LineRange{{First: 1, Last: maxLine}})
		fmt.Fprintf(&b, "%s: executed %v, missed %v\n", name, f.Executed, f.Missed)
	}
	return b.String()
}

func TestReportsOfRealToolsAreRead(t *testing.T) {
	t.Parallel()
	reports, err := filepath.Glob("testdata/*/report")
	require.NoError(t, err)
	require.Len(t, reports, 7)
	for _, report := range reports {
		dir := filepath.Dir(report)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(report)
			require.NoError(t, err)
			p, _ := open(t, filepath.Join(dir, "tree"))
			require.NoError(t, p.Read(data, output.Paths{Root: "/srv/checkout", GoDirs: map[string]string{"example.com/m": "."}}))
			p.Finish(pin.OfTests)
			golden := filepath.Join(dir, "golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(text(p)), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), text(p))
		})
	}
}

func TestALineIsCoveredIfAnyReportSaysSo(t *testing.T) {
	t.Parallel()
	p, _ := tree(t, map[string]string{"web/a.py": "one\ntwo\nthree\n"})
	for _, report := range []string{"SF:a.py\nDA:1,1\nDA:2,0\nend_of_record\n", "SF:web/a.py\nDA:2,3\nDA:3,0\nend_of_record\n"} {
		require.NoError(t, p.Read([]byte(report), output.Paths{Root: "/srv/checkout", Dir: "web"}))
	}
	p.Finish(pin.OfTests)
	require.Equal(t, "web/a.py: executed [1-2], missed [3]\n", text(p))
	require.Equal(t, contract.LineCount{Lines: 3, Covered: 2}, p.Total())
}

func TestOnlyCodeOfTheCheckoutCounts(t *testing.T) {
	t.Parallel()
	p, root := tree(t, map[string]string{
		"a.js": "const a = 1;\n\n// comment\n/* block\n   of text */ let b;\n}\n", "a.test.js": "test()\n",
		"node_modules/dep/index.js": "x()\n", "real.py": "x\n",
	})
	require.NoError(t, root.Symlink("real.py", "link.py"))
	var report strings.Builder
	for _, file := range []string{"a.js", "a.test.js", "node_modules/dep/index.js", "link.py", "../outside.js", "/etc/passwd", "gone.js"} {
		fmt.Fprintf(&report, "SF:%s\n", file)
		for n := -1; n < 12; n++ {
			fmt.Fprintf(&report, "DA:%d,1\n", n)
		}
		report.WriteString("DA:2000000000,1\nend_of_record\n")
	}
	require.NoError(t, p.Read([]byte(report.String()), output.Paths{Root: "/srv/checkout"}))
	p.Finish(pin.OfTests)
	require.Equal(t, "a.js: executed [1 5], missed []\n", text(p))
}

func TestHostileReportsAreRefusedOrBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.go": "package a\n\nfunc f() { f() }\n", "go.mod": "module m\n"}
	s := output.Paths{Root: "/srv/checkout", GoDirs: map[string]string{"m": "."}}
	for name, report := range map[string]string{
		"too large":     "TN:" + strings.Repeat(" ", MaxReportBytes),
		"unknown":       "hello",
		"no file":       "TN:\nDA:1,1\n",
		"no line":       "SF:a.go\nDA:x,1\n",
		"go syntax":     "mode: set\nm/a.go:1\n",
		"too many":      "mode: set\n" + strings.Repeat("m/a.go:1.1,100000.1 1 1\nm/a.go:1.2,99999.1 1 1\n", 1) + manyBlocks(),
		"deep":          "<coverage>" + strings.Repeat("<a>", 5000),
		"wide":          "<coverage>" + strings.Repeat("<a/>", maxXMLElements+1) + "</coverage>",
		"entities":      `<?xml version="1.0"?><!DOCTYPE coverage [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><coverage><source>&b;</source></coverage>`,
		"external":      `<!DOCTYPE report [<!ENTITY x SYSTEM "file:///etc/passwd">]><report>&x;</report>`,
		"large tag":     "<coverage " + strings.Repeat(`a="" `, maxXMLToken/5) + "/>",
		"large text":    "<coverage>" + strings.Repeat("a", maxXMLToken) + "</coverage>",
		"large comment": "<coverage><!--" + strings.Repeat("a", maxXMLToken) + "--></coverage>",
		"cut off":       "<report><package name='a'>",
		"crossed":       "<coverage><class></coverage></class>",
		"not a profile": "<html></html>",
	} {
		p, _ := tree(t, files)
		require.Error(t, p.Read([]byte(report), s), name)
	}
	p, _ := tree(t, files)
	require.NoError(t, p.Read([]byte("mode: set\nm/a.go:1.1,2000000000.1 1 1\nm/../../etc/passwd:1.1,2.1 1 1\n"), s))
	p.Finish(pin.OfTests)
	require.Equal(t, "a.go: executed [3], missed []\n", text(p), "a file has no more lines than it has")
}

func TestAGoPackageWhoseNameEndsInTestIsNotMistakenForAnother(t *testing.T) {
	t.Parallel()
	source := "package m\n\nfunc F() {\n\tprintln()\n}\n\nfunc Empty() {}\n"
	p, _ := tree(t, map[string]string{"db/a.go": source, "db_test/a.go": source})
	report := "mode: set\nexample.com/m/db_test/a.go:3.10,5.2 1 1\nexample.com/m/db_test/a.go:7.14,7.15 0 0\n"
	require.NoError(t, p.Read([]byte(report), output.Paths{Root: "/srv/checkout", GoDirs: map[string]string{"example.com/m": "."}}))
	p.Finish(func(string) bool { return false })
	require.Equal(t, "db_test/a.go: executed [3-4], missed []\n", text(p), "an empty function has nothing to execute")
}

func TestAClassIsFoundAmongManyOfItsName(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for n := range 300 {
		files[fmt.Sprintf("src/p%d/A.java", n)] = "class A {\n  int a = 1;\n}\n"
	}
	p, _ := tree(t, files)
	class := `<package name="p7"><sourcefile name="A.java"><line nr="2" ci="1"/></sourcefile></package>`
	searches := 0
	require.NoError(t, p.Read([]byte("<report>"+strings.Repeat(class, 50_000)+"</report>"), output.Paths{Root: "/srv/checkout"}))
	for key := range p.paths {
		searches++
		require.Contains(t, key, "p7/A.java")
	}
	require.Equal(t, 1, searches, "a class that a report names repeatedly is searched for once")
	p.Finish(pin.OfTests)
	require.Equal(t, "src/p7/A.java: executed [2], missed []\n", text(p))
}

// manyBlocks are blocks of a Go profile that together have more lines than any project.
func manyBlocks() string {
	var b strings.Builder
	for n := range maxMarks / maxLine {
		fmt.Fprintf(&b, "m/a.go:1.%d,100000.2 1 1\n", n+3)
	}
	return b.String()
}

func TestChangedLinesAreCountedByFile(t *testing.T) {
	t.Parallel()
	p, root := tree(t, map[string]string{
		"a.py": "a\nb\nc\nd\n", "sub/new.py": "x\n\ny\n", "test_a.py": "t\n", "README.md": "text\n",
		"m/b.go": "package m\n\nfunc F() {\n\tprintln()\n}\n", "m/types.go": "package m\n\ntype T int\n",
		"m/b_windows.go": "package m\n\nimport \"os\"\n\nvar G = func() int {\n\t// comment\n\treturn len(\n\t\tos.Args,\n\t)\n}\n",
		"m/none.go":      "package m\n\nfunc (T) Empty() {}\n\nfunc body() int\n", "comments.py": "# a\n  # b\nx = 1\n",
	})
	s := output.Paths{Root: "/srv/checkout", GoDirs: map[string]string{"m": "m"}}
	require.NoError(t, p.Read([]byte("SF:a.py\nDA:1,1\nDA:2,0\nDA:3,1\nDA:4,0\nend_of_record\n"), s))
	require.NoError(t, p.Read([]byte("mode: set\nm/b.go:3.10,5.2 1 0\n"), s))
	p.Finish(pin.OfTests)
	all := []contract.LineRange{{First: 1, Last: 100}}
	got := p.Changed(root, map[string][]contract.LineRange{
		"a.py": {{First: 2, Last: 3}}, "sub/new.py": all, "test_a.py": all, "README.md": all, "m/b.go": all, "m/types.go": all, "gone.py": all,
		"m/b_windows.go": all, "m/none.go": all, "comments.py": all,
	}, pin.OfTests)
	line := func(n int) []contract.LineRange { return []contract.LineRange{{First: n, Last: n}} }
	require.Equal(t, &contract.ChangedLines{
		LineCount: contract.LineCount{Lines: 4, Covered: 1}, Unknown: 6,
		Files: []contract.FileCoverage{
			{Path: "a.py", LineCount: contract.LineCount{Lines: 2, Covered: 1}, Executed: line(3), Missed: line(2)},
			{Path: "comments.py", Unknown: 1},
			{Path: "m/b.go", LineCount: contract.LineCount{Lines: 2}, Missed: []contract.LineRange{{First: 3, Last: 4}}},
			{Path: "m/b_windows.go", Unknown: 3},
			{Path: "sub/new.py", Unknown: 2},
		},
	}, got)
}

func TestListsOfChangedLinesAreBoundedAndCountsAreNot(t *testing.T) {
	t.Parallel()
	files, added := map[string]string{}, map[string][]contract.LineRange{}
	var report strings.Builder
	const lines = 20
	for i := range contract.MaxCoverageFiles + 5 {
		name := fmt.Sprintf("f%03d.py", i)
		files[name], added[name] = strings.Repeat("x\n", lines), []contract.LineRange{{First: 1, Last: lines}}
		fmt.Fprintf(&report, "SF:%s\n", name)
		for n := 1; n <= lines; n++ {
			fmt.Fprintf(&report, "DA:%d,%d\n", n, n%2)
		}
		report.WriteString("end_of_record\n")
	}
	p, root := tree(t, files)
	require.NoError(t, p.Read([]byte(report.String()), output.Paths{Root: "/srv/checkout"}))
	p.Finish(pin.OfTests)
	got := p.Changed(root, added, pin.OfTests)
	require.Equal(t, contract.LineCount{Lines: len(files) * lines, Covered: len(files) * lines / 2}, got.LineCount)
	require.Len(t, got.Files, contract.MaxCoverageFiles)
	require.Equal(t, 5, got.Omitted)
	ranges, omitted := 0, 0
	for _, f := range got.Files {
		ranges += len(f.Executed) + len(f.Missed)
		omitted += f.Omitted
	}
	require.Equal(t, contract.MaxCoverageRanges, ranges)
	require.Equal(t, contract.MaxCoverageFiles*lines-contract.MaxCoverageRanges, omitted)
	require.Len(t, got.Files[0].Missed, lines/2, "missed lines have priority in a file")
}

func FuzzReports(f *testing.F) {
	reports, err := filepath.Glob("testdata/*/report")
	require.NoError(f, err)
	for _, report := range reports {
		data, err := os.ReadFile(report)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _ := open(t, "testdata/go/tree")
		_ = p.Read(data, output.Paths{Root: "/srv/checkout", GoDirs: map[string]string{"example.com/m": "."}})
		p.Finish(pin.OfTests)
		sum := p.Total()
		require.LessOrEqual(t, sum.Covered, sum.Lines)
	})
}
