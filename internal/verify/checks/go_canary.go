package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// goCanary adds a fuzz target with a random name to each package with tests. Fuzz targets run after
// all tests, including parallel ones, and the targets of an external test package run last. An
// overlay leaves the files of the checkout unchanged, and an external test package avoids
// recompiling anything else.
func goCanary(m GoModule, packages []goPackage) func(*os.Root, Invocation, string) (Invocation, error) {
	return func(root *os.Root, inv Invocation, secret string) (Invocation, error) {
		target := "Fuzz_" + CanaryName + secret
		replace, expected := map[string]string{}, map[string]bool{}
		if err := MakeScratch(root); err != nil {
			return inv, err
		}
		for _, p := range packages {
			if p.name == "" {
				continue
			}
			file := path.Join(output.ScratchDir, "go-"+secret+"-"+p.name)
			source := "package " + p.name + "_test\n\nimport \"testing\"\n\nfunc " + target + "(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n"
			if err := root.WriteFile(file, []byte(source), 0o644); err != nil {
				return inv, err
			}
			replace[path.Join(relTo(m.Dir, p.dir), "zzz_"+CanaryName+secret+"_test.go")] = up(m.Dir, file)
			expected[p.dir] = true
		}
		overlay := path.Join(output.ScratchDir, "go-"+secret+".json")
		data, err := json.Marshal(map[string]any{"Replace": replace})
		if err == nil {
			err = root.WriteFile(overlay, data, 0o644)
		}
		if err != nil {
			return inv, err
		}
		inv.Args = slices.Insert(slices.Clone(inv.Args), 2, "-overlay="+up(m.Dir, overlay))
		if n := slices.Index(inv.Args, "-run") + 1; n > 0 {
			inv.Args[n] += "|^" + target + "$"
		}
		inv.HiddenTest = target
		inv.Ended = func(f *Finished, s output.Paths) { goEnded(root, f, s, target, expected) }
		return inv, nil
	}
}

// goEnded compares the packages that passed with the packages in which the canary passed.
func goEnded(root *os.Root, f *Finished, s output.Paths, target string, expected map[string]bool) {
	f.Parsed.Cases = slices.DeleteFunc(f.Parsed.Cases, func(c output.Case) bool { return c.Test == target })
	if f.Result.StdoutTruncated {
		return
	}
	seen := map[string]bool{}
	var passed []string
	for line := range bytes.Lines(f.Result.Stdout) {
		var event output.GoEvent
		if !bytes.Contains(line, []byte(`"Action":"pass"`)) || json.Unmarshal(line, &event) != nil {
			continue
		}
		switch event.Test {
		case target:
			seen[event.Package] = true
		case "":
			passed = append(passed, event.Package)
		}
	}
	for _, pkg := range passed {
		dir := s.GoDir(pkg)
		if seen[pkg] || !expected[dir] {
			continue
		}
		ofPackage := func(c output.Case) bool { return c.Group == pkg }
		l, text := output.Error, fmt.Sprintf("go test reports that %s passed, but there is no sign that its tests finished: the sentinel test, which should run last, did not run. Tests that it reports as passed do not count. "+
			"Code under test ended the test program with exit code 0, or printed its own results; look for os.Exit, syscall.Exit and syscall.Exec in init functions and in the code that tests call", output.Name(pkg))
		if !slices.ContainsFunc(f.Parsed.Cases, ofPackage) && goTestFuncs(root, dir)["TestMain"] {
			// Tests that need an unavailable database do this.
			l, text = output.Warning, fmt.Sprintf("go test reports that %s passed, but none of its tests ran: its TestMain, or code that ran before it, ended the test program with exit code 0", output.Name(pkg))
		}
		f.DropUnseen(l, dir, text, ofPackage)
	}
}
