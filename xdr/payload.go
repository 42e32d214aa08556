// Payloads: bulk data that goes to the wire without passing through the
// encode buffer. The data path implements them over pooled buffers, aligned
// direct-I/O buffers and filled pipes; Bytes is the plain one over a slice.

package xdr

import "golang.org/x/sys/unix"

// Payload is the content of one opaque<> result, kept outside the encode buffer.
// One goroutine at a time uses it.
type Payload interface {
	// Len returns the bytes left to send. It is fixed before the header of the
	// reply is written, and falls only as bytes are sent.
	Len() int
	// Bytes returns the bytes left of a payload that lies in memory, and true;
	// nil and false for any other. They are good until Advance or Release.
	Bytes() ([]byte, bool)
	// SendTo moves as many bytes as the nonblocking socket fd takes, for
	// payloads that are not in memory: n > 0, or unix.EAGAIN when it is full.
	SendTo(fd int) (int, error)
	// ReadAll moves what is left into dst, which has room for Len bytes, and
	// returns how many bytes that was.
	ReadAll(dst []byte) (int, error)
	// Advance says that n bytes of a payload in memory were sent.
	Advance(n int)
	// Release gives the resources back. Exactly once; nothing may be called after it.
	Release()
}

// Bytes is a Payload over a slice that nobody needs to get back.
type Bytes struct{ b []byte }

// NewBytes returns a Payload of b, which must not change until it is released.
func NewBytes(b []byte) *Bytes { return &Bytes{b} }

// Len returns the number of bytes left.
func (p *Bytes) Len() int { return len(p.b) }

// Bytes returns the bytes left, and true.
func (p *Bytes) Bytes() ([]byte, bool) { return p.b, true }

// SendTo is not for payloads in memory: it returns unix.EINVAL.
func (p *Bytes) SendTo(int) (int, error) { return 0, unix.EINVAL }

// ReadAll copies the bytes left to dst.
func (p *Bytes) ReadAll(dst []byte) (int, error) {
	n := copy(dst, p.b)
	p.b = p.b[n:]
	return n, nil
}

// Advance drops the first n bytes.
func (p *Bytes) Advance(n int) { p.b = p.b[n:] }

// Release forgets the slice.
func (p *Bytes) Release() { p.b = nil }
