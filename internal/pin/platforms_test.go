package pin_test

import "testing"

func TestTestsThatNoLongerRunOnASystemAreExcluded(t *testing.T) {
	t.Parallel()
	const body = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif a() != 1 {\n\t\tt.Fatal(a())\n\t}\n}\n"
	file := func(name, before, after string, want ...string) example {
		return one(name, "a_test.go", before+body, after+body, want...)
	}
	const notWindows, linux = "// +build !windows\n\n", "// +build linux\n\n"
	moved := func(path string, want ...string) example {
		return example{"moved to " + path, []change{{"a_test.go", body, gone}, {path, gone, body}}, want}
	}
	try(t, []example{
		file("fewer systems", notWindows, linux, "excluded"),
		file("fewer systems in the new notation", "", "//go:build !windows\n\n", "excluded"),
		file("more systems", linux, notWindows),
		file("both notations", notWindows, "//go:build !windows\n// +build !windows\n\n"),
		file("only in the new notation", notWindows, "//go:build !windows\n\n"),
		file("a tag that is not set, in the old notation", "", "// +build integration\n\n", "excluded"),
		file("a tag that is not set any more", "", "//go:build !appengine\n\n"),
		file("two lines in the old notation", notWindows, "// +build !windows\n// +build !darwin\n\n", "excluded"),
		moved("a_linux_test.go", "skipped TestA"),
		moved("a_unix_test.go"),
		moved("a_linux_amd64_test.go", "skipped TestA"),
		moved("b_test.go"),
	})
}
