// The client side: one call per request, errors in the administrator's words.

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
)

// maxAnswer bounds what the client reads of one answer, in bytes.
const maxAnswer = 64 << 20

// Client talks to the admin socket of a running server.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the server whose admin socket is at path.
// Nothing is dialled yet.
func NewClient(path string) *Client {
	c := &Client{socket: path}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}
	return c
}

// Close ends the connection that is kept for the next call. The Client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends one request. in, when not nil, becomes the JSON body; the JSON
// answer is stored in out, when not nil.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	body, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("the server at %s answered %s with something that isn't JSON: %w", c.socket, path, err)
	}
	return nil
}

// Stream reads a stream of lines and calls line for each, until ctx is done,
// line returns an error, or the server ends, which is an error too.
func (c *Client) Stream(ctx context.Context, path string, line func([]byte) error) error {
	body, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	sc := bufio.NewScanner(body)
	for sc.Scan() {
		if err := line(sc.Bytes()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := sc.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return fmt.Errorf("the server has ended, and with it the stream from %s", c.socket)
}

func (c *Client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var reqBody io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		reqBody = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sluice"+path, reqBody)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	defer res.Body.Close()
	var e Error
	if json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&e) != nil || e.Error == "" {
		e.Error = "the server answered " + res.Status
	}
	return nil, errors.New(e.Error)
}

// explain says what a failed dial means.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no server's admin socket at %s: start `sluice serve`, or name its socket with --admin", c.socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody listens on the admin socket %s: the server that made it has ended; start `sluice serve`", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the admin socket %s can't be opened: permission denied; run this as the server's user or as root", c.socket)
	}
	if len(c.socket) > maxSocketPath {
		return fmt.Errorf("the admin socket's path %s has %d bytes, but the kernel takes %d at most: name another with --admin", c.socket, len(c.socket), maxSocketPath)
	}
	return fmt.Errorf("admin socket %s: %w", c.socket, err)
}
