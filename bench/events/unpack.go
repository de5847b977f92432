package events

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The encoding that Encode writes: a cookie and a length, and compressed a header and the counts.
const (
	compressedCookie = 0x1c849304 | 0x10
	plainCookie      = 0x1c849303 | 0x10
	outerHeader      = 8
	innerHeader      = 40
	subBuckets       = 1024 // half of the sub-buckets of a histogram with three significant digits
)

// unpacker takes histograms apart. The library makes a decompressor for each histogram, which takes ten times as long as
// decompressing so few bytes: hours of ticks are read with this one.
type unpacker struct {
	raw, plain bytes.Buffer
	in         bytes.Reader
	inflater   io.ReadCloser
}

var unpackers = sync.Pool{New: func() any { return &unpacker{} }}

// unpack returns a histogram of a log in its sparse form. One of another geometry than NewHistogram's is left to the library.
func unpack(hdr string) (*hdrhistogram.PackedHistogram, error) {
	u := unpackers.Get().(*unpacker)
	defer unpackers.Put(u)
	counts, ours, err := u.counts(hdr)
	if err != nil || !ours {
		h, err := hdrhistogram.DecodePacked([]byte(hdr))
		if err != nil {
			return nil, fmt.Errorf("decode histogram %.40q: %w", hdr, err)
		}
		return h, nil
	}
	h := NewPacked()
	for i := int64(0); len(counts) > 0; {
		n, size := zigzag(counts)
		if size == 0 {
			return nil, fmt.Errorf("decode histogram %.40q: its counts are cut off", hdr)
		}
		counts = counts[size:]
		if n < 0 { // so many values that did not occur
			i -= n
			continue
		}
		if n > 0 {
			if err := h.RecordValues(valueAt(i), n); err != nil {
				return nil, fmt.Errorf("decode histogram %.40q: %w", hdr, err)
			}
		}
		i++
	}
	return h, nil
}

// counts decompresses to the encoded counts. They are valid until the next call.
func (u *unpacker) counts(hdr string) (counts []byte, ours bool, err error) {
	u.raw.Reset()
	u.raw.Grow(base64.StdEncoding.DecodedLen(len(hdr)))
	raw, err := base64.StdEncoding.AppendDecode(u.raw.AvailableBuffer(), []byte(hdr))
	if err != nil {
		return nil, false, err
	}
	if len(raw) < outerHeader || binary.BigEndian.Uint32(raw) != compressedCookie ||
		int(binary.BigEndian.Uint32(raw[4:])) != len(raw)-outerHeader {
		return nil, false, nil
	}
	u.in.Reset(raw[outerHeader:])
	if u.inflater == nil {
		u.inflater, err = zlib.NewReader(&u.in)
	} else {
		err = u.inflater.(zlib.Resetter).Reset(&u.in, nil)
	}
	if err != nil {
		u.inflater = nil
		return nil, false, err
	}
	u.plain.Reset()
	if _, err := u.plain.ReadFrom(io.LimitReader(u.inflater, 1<<20)); err != nil {
		return nil, false, err
	}
	plain := u.plain.Bytes()
	if len(plain) < innerHeader {
		return nil, false, errors.New("too short")
	}
	payload := plain[innerHeader:]
	ours = binary.BigEndian.Uint32(plain) == plainCookie &&
		int(binary.BigEndian.Uint32(plain[4:])) == len(payload) &&
		binary.BigEndian.Uint32(plain[8:]) == 0 && // normalizing index offset
		binary.BigEndian.Uint32(plain[12:]) == histogramDigits &&
		binary.BigEndian.Uint64(plain[16:]) == histogramMin &&
		binary.BigEndian.Uint64(plain[24:]) == histogramMax
	return payload, ours, nil
}

// zigzag reads one number: seven bits a byte, the ninth byte whole; size 0: it is cut off.
func zigzag(b []byte) (n int64, size int) {
	var v uint64
	for i := 0; i < len(b) && i < 9; i++ {
		if i == 8 {
			v |= uint64(b[i]) << 56
			return int64(v>>1) ^ -int64(v&1), 9
		}
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			return int64(v>>1) ^ -int64(v&1), i + 1
		}
	}
	return 0, 0
}

// valueAt is the least value that counts under an index.
func valueAt(i int64) int64 {
	bucket, sub := i/subBuckets-1, i%subBuckets+subBuckets
	if bucket < 0 {
		bucket, sub = 0, sub-subBuckets
	}
	if bucket > 40 { // beyond any value of a log; recording it fails
		return 1 << 62
	}
	return sub << bucket
}
