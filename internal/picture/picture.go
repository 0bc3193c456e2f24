// Package picture checks pictures that people and tests provide for models. A picture is accepted only
// if its header can be decoded as one of the formats that all providers take. Its content is never
// decoded here: it is data for a model, and untrusted.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
)

// MaxSide is the largest width and height of a picture in pixels: providers reject larger ones.
const MaxSide = 8000

// Check returns the type of a picture, such as image/png, and its content without metadata where that
// can be removed without decoding it: the texts, times and camera data of PNG and JPEG files. The error
// says what is wrong with a file that is not an acceptable picture.
func Check(data []byte, most int64) (mediaType string, content []byte, err error) {
	if int64(len(data)) > most {
		return "", nil, fmt.Errorf("it is %d bytes long, more than the %d allowed (execution.pictures.max_size)", len(data), most)
	}
	mediaType = http.DetectContentType(data)
	header, known := headers[mediaType]
	if !known {
		return "", nil, errors.New("it is neither a PNG, a JPEG, a GIF nor a WebP picture")
	}
	size, err := header(data)
	if err != nil {
		return "", nil, fmt.Errorf("it is not a valid %s picture: %w", mediaType, err)
	}
	if size.Width <= 0 || size.Height <= 0 || size.Width > MaxSide || size.Height > MaxSide {
		return "", nil, fmt.Errorf("it has %d × %d pixels; at most %d × %d are allowed", size.Width, size.Height, MaxSide, MaxSide)
	}
	switch mediaType {
	case "image/png":
		return mediaType, plainPNG(data), nil
	case "image/jpeg":
		return mediaType, plainJPEG(data), nil
	}
	return mediaType, data, nil
}

var headers = map[string]func([]byte) (image.Config, error){
	"image/png":  func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
	"image/jpeg": func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
	"image/gif":  func(b []byte) (image.Config, error) { return gif.DecodeConfig(bytes.NewReader(b)) },
	"image/webp": webp,
}

// webp reads the size of a WebP picture from its first chunk.
func webp(b []byte) (image.Config, error) {
	const first = 20 // RIFF, its size, WEBP, the name and the size of the first chunk
	if len(b) < first+10 {
		return image.Config{}, errors.New("it is too short")
	}
	body := b[first:]
	switch string(b[12:16]) {
	case "VP8 ":
		if !bytes.Equal(body[3:6], []byte{0x9d, 0x01, 0x2a}) {
			return image.Config{}, errors.New("its first frame has no start code")
		}
		return image.Config{Width: int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff), Height: int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)}, nil
	case "VP8L":
		if body[0] != 0x2f {
			return image.Config{}, errors.New("it has no signature")
		}
		bits := binary.LittleEndian.Uint32(body[1:])
		return image.Config{Width: int(bits&0x3fff) + 1, Height: int(bits>>14&0x3fff) + 1}, nil
	case "VP8X":
		side := func(at int) int { return int(body[at]) | int(body[at+1])<<8 | int(body[at+2])<<16 }
		return image.Config{Width: side(4) + 1, Height: side(7) + 1}, nil
	}
	return image.Config{}, errors.New("its first chunk is unknown")
}

// pngMetadata are the chunks of a PNG file that describe it without changing how it looks.
var pngMetadata = map[string]bool{"tEXt": true, "zTXt": true, "iTXt": true, "eXIf": true, "tIME": true}

// plainPNG removes the metadata of a PNG file, and what follows its end; a file with a broken chunk
// stays as it is.
func plainPNG(b []byte) []byte {
	const signature, around = 8, 12 // a chunk has a length, a name and a checksum
	out := bytes.Clone(b[:signature])
	for at := signature; at+around <= len(b); {
		n := int(binary.BigEndian.Uint32(b[at:]))
		end := at + around + n
		if n < 0 || end > len(b) || end < at {
			return b
		}
		name := string(b[at+4 : at+8])
		if !pngMetadata[name] {
			out = append(out, b[at:end]...)
		}
		if name == "IEND" {
			return out
		}
		at = end
	}
	return b
}

// plainJPEG removes comments and application data from a JPEG file, except those that change its
// colours (JFIF, ICC and Adobe's); a file with a broken segment stays as it is.
func plainJPEG(b []byte) []byte {
	const startOfScan, comment, app0, app2, app14, app15 = 0xda, 0xfe, 0xe0, 0xe2, 0xee, 0xef
	out := bytes.Clone(b[:2])
	for at := 2; at+4 <= len(b) && b[at] == 0xff; {
		kind := b[at+1]
		if kind == startOfScan {
			return append(out, b[at:]...)
		}
		end := at + 2 + int(binary.BigEndian.Uint16(b[at+2:]))
		if end > len(b) || end < at+4 {
			return b
		}
		application := kind >= app0 && kind <= app15 && kind != app0 && kind != app2 && kind != app14
		if kind != comment && !application {
			out = append(out, b[at:end]...)
		}
		at = end
	}
	return b
}
