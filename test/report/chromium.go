// Package report holds the test that the HTML report of sluice bench renders.
//
// This file runs Chromium: one start shows a page and gives back its document,
// a picture of it, and what was said on its console.
package report

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// shown is a page as Chromium shows it.
type shown struct {
	document string
	picture  image.Image
	console  []message
}

// message is a line of the console; source is the address that it is about.
type message struct{ text, source string }

var consoleLine = regexp.MustCompile(`CONSOLE[:(]\d+\)?\] "(.*)", source: (\S*) \(\d+\)`)

// show loads a page in a window of the given size. It takes a few seconds on a
// quiet machine.
func show(ctx context.Context, dir, url string, width, height int) (*shown, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp(dir, "profile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(profile)
	shot := filepath.Join(profile, "page.png")
	cmd := exec.CommandContext(ctx, "chromium", "--headless",
		"--no-sandbox", // it refuses to run as root with it; the pages are our own
		"--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+profile, "--enable-logging=stderr",
		fmt.Sprintf("--window-size=%d,%d", width, height),
		"--dump-dom", "--screenshot="+shot, url)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Env = append(os.Environ(), "HOME="+profile, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent")
	// Its helper processes end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("chromium: %w: %s", err, tail(log.String()))
	}
	page := &shown{document: out.String()}
	lines := bufio.NewScanner(&log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := consoleLine.FindStringSubmatch(lines.Text()); m != nil {
			page.console = append(page.console, message{m[1], m[2]})
		}
	}
	f, err := os.Open(shot)
	if err != nil {
		return nil, fmt.Errorf("no picture of the page: %w: %s", err, tail(log.String()))
	}
	defer f.Close()
	if page.picture, err = png.Decode(f); err != nil {
		return nil, fmt.Errorf("the picture of the page: %w", err)
	}
	return page, nil
}

// tail is the end of a log.
func tail(s string) string {
	return strings.TrimSpace(s[max(0, len(s)-2000):])
}
