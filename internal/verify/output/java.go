package output

import (
	"path"
	"regexp"
	"strings"
)

// javaFrame matches a stack frame: at com.example.AppTest.fails(AppTest.java:12)
var javaFrame = regexp.MustCompile(`^\s*at (?:[^\s()/]+/)*([\w$.]+)\.[\w$<>]+\((\w+\.(?:java|kt|scala|groovy)):(\d+)\)`)

// javaFrames returns the locations of a stack in reverse order: the innermost frame comes last.
// Paths are package paths; resolveJava finds the source root.
func javaFrames(body string) []Problem {
	var out []Problem
	for line := range strings.Lines(body) {
		if m := javaFrame.FindStringSubmatch(line); m != nil && len(out) < 200 {
			pkg := ""
			if n := strings.LastIndexByte(m[1], '.'); n >= 0 {
				pkg = strings.ReplaceAll(m[1][:n], ".", "/")
			}
			out = append([]Problem{{Path: path.Join(pkg, m[2]), Line: Number(m[3])}}, out...)
		}
	}
	return out
}
