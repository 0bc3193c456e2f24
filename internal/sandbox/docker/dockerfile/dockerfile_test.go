package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockerfile"
)

func TestImagesAreFoundWhereverADockerfileNamesThem(t *testing.T) {
	t.Parallel()
	f, err := dockerfile.Parse([]byte(`
# a comment
ARG VERSION=20
ARG BASE="node:${VERSION}"
FROM golang:1.26 AS Tools
RUN echo one && \
    # a comment in between
    echo two
FROM --platform=$BUILDPLATFORM ${BASE} as app
ARG VERSION
VOLUME /data
EXPOSE 80
COPY --from=tools /go /go
COPY --from=busybox:1 --chown=1:1 /bin/sh /bin/
COPY --from=0 /a /b
ADD files/*.tar.gz /opt/
FROM scratch
COPY --from=app / /
`), "", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"busybox:1", "golang:1.26", "node:20"}, f.Images)
	require.Equal(t, `ARG VERSION=20
ARG BASE="node:${VERSION}"
FROM sha256:g AS tools
LABEL dev.rocketgpt.build=building
RUN echo one &&     echo two
FROM sha256:n AS app
LABEL dev.rocketgpt.build=building
ARG VERSION
COPY --from=tools /go /go
COPY --from=sha256:b --chown=1:1 /bin/sh /bin/
COPY --from=0 /a /b
ADD files/*.tar.gz /opt/
FROM scratch
LABEL dev.rocketgpt.build=building
COPY --from=app / /
`, string(f.Render(map[string]string{"golang:1.26": "sha256:g", "node:20": "sha256:n", "busybox:1": "sha256:b"})))
}

func TestABuildArgumentAndATargetDecideWhichImagesAreUsed(t *testing.T) {
	t.Parallel()
	text := []byte("ARG V=1\nFROM a:$V AS one\nFROM b:$V AS two\nFROM c:$V\n")
	f, err := dockerfile.Parse(text, "two", map[string]string{"V": "2"})
	require.NoError(t, err)
	require.Equal(t, []string{"a:2", "b:2"}, f.Images)
	require.NotContains(t, string(f.Render(nil)), "c:")
	_, err = dockerfile.Parse(text, "three", nil)
	require.ErrorContains(t, err, `no stage "three"`)
}

func TestWhatCannotBeResolvedOrWouldReachBeyondTheBuildIsRefused(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]string{
		"# syntax=evil.example.com/frontend\nFROM a": "line 1: the directive syntax",
		"//syntax=evil.example.com/frontend\nFROM a": "the directive syntax",
		"FROM ${X}":                "X",
		"FROM $X":                  "has no value",
		"ARG X\nFROM a:$X":         "has no value",
		"FROM a\nARG X=b\nFROM $X": "has no value",
		"FROM a\nADD http://169.254.169.254/x /x":         "ADD may add only files of the context",
		"FROM a\nADD [\"https://example.com/x\", \"/x\"]": "ADD may add only",
		"FROM a\nADD h\\ttp://example.com/x /x":           "ADD may add only",
		"FROM a\nARG U=http://x\nADD $U /x":               "ADD may add only",
		"FROM a\nADD git@example.com:a/b.git /x":          "ADD may add only",
		"FROM a\nCOPY --from=$X /a /b":                    "cannot be resolved",
		"FROM a\nCOPY --from=\"x y\" /a /b":               "cannot be resolved",
		"FROM a\nCOPY --from= /a /b":                      "no value",
		"FROM a\nCOPY --from=x --from=y /a /b":            "twice",
		"FROM a\nCOPY --link /a /b":                       "needs BuildKit",
		"FROM a\nRUN --mount=type=bind,from=evil cat /x":  "needs BuildKit",
		"FROM a\nRUN --network=host true":                 "needs BuildKit",
		"FROM a\nRUN <<EOF\nFROM evil\nEOF":               "here-documents",
		"FROM a\nONBUILD COPY --from=evil / /":            "ONBUILD",
		"FROM a\nIMPORT x":                                "unknown instruction",
		"RUN true\nFROM a":                                "before the first FROM",
		"FROM a\nRUN echo \\\\\nFROM evil":                "escape character",
		"FROM a AS scratch":                               "not the name of a stage",
		"FROM a b c":                                      "expected FROM",
		"FROM --platform=linux/s390x a":                   "is not supported",
		"FROM 'a'b%s":                                     "not the name of an image",
		"FROM a\nLABEL dev.rocketgpt.build=built":         "reserved",
		"ARG A=1": "no FROM",
		"":        "cannot be parsed",
		strings.Repeat("#", dockerfile.MaxBytes+1):   "larger than",
		"FROM a\n" + strings.Repeat("RUN x\n", 1000): "more than",
	} {
		_, err := dockerfile.Parse([]byte(text), "", nil)
		require.ErrorContains(t, err, wrong, "%.100q", text)
		var refused *dockerfile.Refused
		require.ErrorAs(t, err, &refused)
	}
}

// files makes a repository.
func files(t *testing.T, all map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(target, p))
			continue
		}
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// names returns the names in the archive of a context.
func names(t *testing.T, root *os.Root, c *dockerfile.Context) map[string]string {
	t.Helper()
	var archive bytes.Buffer
	require.NoError(t, c.Write(&archive, root, []byte("FROM a\n")))
	out := map[string]string{}
	for r := tar.NewReader(&archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		out[h.Name] = string(data) + h.Linkname
	}
}

func TestAContextHasTheFilesThatAreNotIgnoredAndItsLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	root := files(t, map[string]string{
		"app/a.txt": "a", "app/node_modules/x/y": "no", "app/log/keep.txt": "kept", "app/log/b.txt": "no", "app/out": "-> " + secret, "app/up": "-> ../../..",
		"app/.dockerignore": "node_modules\nlog\n!log/keep.txt\n", "other": "no", "app/.git/config": "no", "app/" + dockerfile.Name: "theirs",
	})
	c, err := dockerfile.ReadContext(root, "app", "app/Dockerfile", 1<<20)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		dockerfile.Name: "FROM a\n", ".dockerignore": dockerfile.Name + "\n.dockerignore\n",
		"a.txt": "a", "log/keep.txt": "kept", "out": secret, "up": "../../..",
	}, names(t, root, c))
}

func TestTheDigestOfAContextChangesWithItsFilesOnly(t *testing.T) {
	t.Parallel()
	digest := func(all map[string]string) string {
		c, err := dockerfile.ReadContext(files(t, all), ".", "Dockerfile", 1<<20)
		require.NoError(t, err)
		return c.Digest
	}
	base := digest(map[string]string{"a": "1", "b": "2"})
	require.Equal(t, base, digest(map[string]string{"a": "1", "b": "2"}))
	require.NotEqual(t, base, digest(map[string]string{"a": "1", "b": "3"}))
	require.NotEqual(t, base, digest(map[string]string{"a": "1", "c": "2"}))
	require.NotEqual(t, base, digest(map[string]string{"a": "1", "b": "-> 2"}))
	require.Equal(t, base, digest(map[string]string{"a": "1", "b": "2", "c": "3", "Dockerfile.dockerignore": "c\nDockerfile*"}))
}

func TestTheDigestOfAnImageChangesWithAllThatItIsBuiltFrom(t *testing.T) {
	t.Parallel()
	digest := func(text, id, target, context string, args map[string]string) string {
		f, err := dockerfile.Parse([]byte(text), target, args)
		require.NoError(t, err)
		return dockerfile.Digest(f, map[string]string{"a": id}, target, context)
	}
	all := []string{
		digest("FROM a AS x", "1", "", "c", nil), digest("FROM a AS x\nRUN y", "1", "", "c", nil), digest("FROM a AS x", "2", "", "c", nil),
		digest("FROM a AS x", "1", "x", "c", nil), digest("FROM a AS x", "1", "", "d", nil), digest("FROM a AS x", "1", "", "c", map[string]string{"k": "v"}),
	}
	seen := map[string]bool{}
	for _, d := range all {
		require.False(t, seen[d])
		seen[d] = true
	}
	require.Equal(t, all[0], digest("# a comment\nFROM a AS x\nEXPOSE 80\n", "1", "", "c", nil), "what has no meaning does not count")
}

func TestAContextIsLimitedAndHasNoSpecialFiles(t *testing.T) {
	t.Parallel()
	root := files(t, map[string]string{"a": strings.Repeat("x", 100), "link": "-> a", ".dockerignore": "[\n"})
	_, err := dockerfile.ReadContext(root, ".", "Dockerfile", 1000)
	require.ErrorContains(t, err, ".dockerignore")
	require.NoError(t, root.Remove(".dockerignore"))
	_, err = dockerfile.ReadContext(root, ".", "Dockerfile", 99)
	require.ErrorContains(t, err, "larger than 99 bytes")
	_, err = dockerfile.ReadFile(root, "link", 1000)
	require.ErrorContains(t, err, "not a regular file")
	_, err = dockerfile.ReadFile(root, "a", 99)
	require.ErrorContains(t, err, "larger than")
	_, err = dockerfile.ReadContext(root, "../..", "Dockerfile", 1000)
	require.Error(t, err)
}
