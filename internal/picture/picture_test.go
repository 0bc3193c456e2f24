package picture

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"
)

const most = 1 << 20

func pngOf(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return b.Bytes()
}

// withText adds a text chunk after the header of a PNG file.
func withText(file []byte, text string) []byte {
	const header = 8 + 25
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	chunk = append(chunk, "tEXt"+text...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return append(append(bytes.Clone(file[:header]), chunk...), file[header:]...)
}

func TestAPictureIsAcceptedByItsHeaderAndLosesItsMetadata(t *testing.T) {
	t.Parallel()
	plain := pngOf(t, 3, 2)
	kind, content, err := Check(append(withText(plain, "place=home"), "after the end"...), most)
	require.NoError(t, err)
	require.Equal(t, "image/png", kind)
	require.Equal(t, plain, content)

	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2)), nil))
	exif := append(append([]byte{0xff, 0xd8, 0xff, 0xe1, 0, 12}, "Exif\x00\x00home"...), b.Bytes()[2:]...)
	kind, content, err = Check(exif, most)
	require.NoError(t, err)
	require.Equal(t, "image/jpeg", kind)
	require.Equal(t, b.Bytes(), content)

	var g bytes.Buffer
	require.NoError(t, gif.Encode(&g, image.NewGray(image.Rect(0, 0, 3, 2)), nil))
	kind, _, err = Check(g.Bytes(), most)
	require.NoError(t, err)
	require.Equal(t, "image/gif", kind)

	webp := append([]byte("RIFF\x20\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00"), 0, 0, 0, 0, 2, 0, 0, 1, 0, 0)
	kind, _, err = Check(webp, most)
	require.NoError(t, err)
	require.Equal(t, "image/webp", kind)
}

func TestWhatIsNoAcceptablePictureIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"empty":        {nil, "neither a PNG"},
		"text":         {[]byte("<svg onload=x>"), "neither a PNG"},
		"only a magic": {[]byte("\x89PNG\r\n\x1a\n"), "not a valid image/png"},
		"too wide":     {pngOf(t, MaxSide+1, 1), "8001 × 1 pixels"},
		"too large":    {make([]byte, most+1), "max_size"},
		"broken WebP":  {append([]byte("RIFF\x20\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00"), make([]byte, 10)...), "start code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Check(test.data, most)
			require.ErrorContains(t, err, test.says)
		})
	}
}
