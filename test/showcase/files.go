package showcase

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// Artifacts of a browser test: a screenshot, a video, and a trace for Playwright's viewer.
var (
	//go:embed testdata/login.png
	screenshot []byte
	//go:embed testdata/login.webm
	video []byte
	//go:embed testdata/trace.zip
	trace []byte
)

// browserFiles returns the files of a browser test.
func browserFiles(name string) []file {
	return []file{
		{name + "/test-failed-1.png", contract.ArtifactScreenshot, screenshot},
		{name + "/video.webm", contract.ArtifactVideo, video},
		{name + "/trace.zip", contract.ArtifactTrace, trace},
		{name + "/results.json", contract.ArtifactJSON, []byte(jsonOf(map[string]any{
			"suites": []any{map[string]any{"title": name, "specs": []any{map[string]any{"title": "logs in", "ok": false, "tests": []any{map[string]any{"timeout": 30000, "results": []any{map[string]any{"retry": 0, "status": "failed", "duration": 5031}}}}}}}},
			"stats":  map[string]any{"expected": 12, "unexpected": 1, "flaky": 0, "nothing": nil, "deep": map[string]any{"a": []int{1, 2, 3}, "b": map[string]any{"c": true}}},
		}))},
		{name + "/memory.heapsnapshot", contract.ArtifactFile, binary(64 << 10)},
	}
}

// binary returns the content of a binary file.
func binary(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte((i*i)>>3 ^ i)
	}
	return out
}

// zipOf packs files into a zip archive, sorted by name.
func zipOf(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry, err := w.Create(name)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := entry.Write(files[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return out.Bytes(), nil
}
