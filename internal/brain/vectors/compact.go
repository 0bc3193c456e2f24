package vectors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// MaxDimensions is the length of the longest vectors.
	MaxDimensions = 8192
	// scaleBytes is the size of the scale in front of a compact vector.
	scaleBytes = 4
	// steps is the largest component of a compact vector, and questionSteps that of a question's, whose
	// products with it fit into 32 bits for the longest vectors.
	steps, questionSteps = 127, 2047
)

// errUnusable is the error for vectors that have no direction.
var errUnusable = errors.New("the embedding is zero or not finite")

// Compact returns a vector of length 1 in the direction of v, as a scale and one byte for each component.
func Compact(v []float32) ([]byte, error) {
	largest, length := extent(v)
	if len(v) == 0 || len(v) > MaxDimensions || length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, errUnusable
	}
	out := make([]byte, scaleBytes, scaleBytes+len(v))
	binary.LittleEndian.PutUint32(out, math.Float32bits(float32(largest/length/steps)))
	for _, x := range v {
		out = append(out, byte(int8(math.Round(float64(x)/largest*steps))))
	}
	return out, nil
}

// extent returns the largest component of a vector, without its sign, and the vector's length.
func extent(v []float32) (largest, length float64) {
	for _, x := range v {
		largest = max(largest, math.Abs(float64(x)))
		length += float64(x) * float64(x)
	}
	return largest, math.Sqrt(length)
}

// question is a vector that compact ones are compared with.
type question struct {
	scale  float32
	values []int32
}

func newQuestion(v []float32) (question, error) {
	largest, length := extent(v)
	if len(v) == 0 || len(v) > MaxDimensions || length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return question{}, errUnusable
	}
	q := question{scale: float32(largest / length / questionSteps), values: make([]int32, len(v))}
	for i, x := range v {
		q.values[i] = int32(math.Round(float64(x) / largest * questionSteps))
	}
	return q, nil
}

// Similarity returns the cosine of the angle between a question's vector and a compact one.
func Similarity(vector []float32, packed []byte) (float64, error) {
	q, err := newQuestion(vector)
	if err == nil && len(vector) != len(packed)-scaleBytes {
		err = ErrDimensions
	}
	if err != nil {
		return 0, err
	}
	return float64(q.similarity(packed)), nil
}

// similarity returns the cosine of the angle between a question and a compact vector of its length.
func (q question) similarity(packed []byte) float32 {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(packed))
	return q.scale * scale * float32(dot(q.values, packed[scaleBytes:]))
}

// dot multiplies the components of two vectors of the same length, eight at a time.
func dot(q []int32, packed []byte) int32 {
	var a, b, c, d int32
	q = q[:len(packed)]
	for len(packed) >= 8 && len(q) >= 8 {
		x, y := (*[8]int32)(q), (*[8]byte)(packed)
		a += x[0]*int32(int8(y[0])) + x[4]*int32(int8(y[4]))
		b += x[1]*int32(int8(y[1])) + x[5]*int32(int8(y[5]))
		c += x[2]*int32(int8(y[2])) + x[6]*int32(int8(y[6]))
		d += x[3]*int32(int8(y[3])) + x[7]*int32(int8(y[7]))
		q, packed = q[8:], packed[8:]
	}
	for i, y := range packed {
		a += q[i] * int32(int8(y))
	}
	return a + b + c + d
}

// Encode returns the compact vectors of a file as they are stored in the database.
func Encode(parts [][]byte) []byte {
	var out []byte
	out = binary.LittleEndian.AppendUint16(out, uint16(len(parts[0])-scaleBytes))
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// Decode returns the compact vectors of what Encode returned.
func Decode(b []byte) ([][]byte, error) {
	wrong := fmt.Errorf("%d bytes do not have the form of vectors", len(b))
	if len(b) < 2 {
		return nil, wrong
	}
	size := scaleBytes + int(binary.LittleEndian.Uint16(b))
	b = b[2:]
	if size == scaleBytes || len(b) == 0 || len(b)%size != 0 || len(b)/size > MaxTexts {
		return nil, wrong
	}
	var parts [][]byte
	for len(b) > 0 {
		parts, b = append(parts, b[:size:size]), b[size:]
	}
	return parts, nil
}
