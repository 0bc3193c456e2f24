package environment

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// packed returns an archive with the given entries.
func packed(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	for _, h := range entries {
		h.Mode = 0o644
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write(make([]byte, h.Size))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestHostileArchivesChangeNothingOutsideAndAreBounded(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("x"), 0o600))
	file := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
	}
	for name, archive := range map[string][]byte{
		"a path that leads out":       packed(t, file("../out", 1)),
		"an absolute path":            packed(t, file(filepath.Join(outside, "new"), 1)),
		"a write through a link":      packed(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, file("l/new", 1)),
		"a write to a linked file":    packed(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: secret}, file("l", 1)),
		"a hard link that leads out":  packed(t, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../" + secret}),
		"a device":                    packed(t, tar.Header{Name: "d", Typeflag: tar.TypeBlock, Devmajor: 8}),
		"a pipe":                      packed(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}),
		"a bomb":                      packed(t, file("bomb", 64<<20)),
		"many files that are no bomb": packed(t, file("a", 3<<20), file("b", 3<<20)),
		"a very deep directory":       packed(t, tar.Header{Name: strings.Repeat("d/", 50_000), Typeflag: tar.TypeDir}),
		"a file twice":                packed(t, file("a", 1), file("a", 1)),
		"no archive":                  []byte("PK"),
	} {
		err := unpack(t.Context(), bytes.NewReader(archive), t.TempDir(), 5<<20)
		require.ErrorContains(t, err, "unpack an environment", name)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	content, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "x", string(content))

	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	u := unpacker{root: root, left: 5, entries: 1}
	require.NoError(t, u.entry(&tar.Header{Name: "a", Typeflag: tar.TypeDir, Mode: 0o755}, nil))
	require.ErrorContains(t, u.entry(&tar.Header{Name: "b", Typeflag: tar.TypeDir, Mode: 0o755}, nil), "more than")
}
