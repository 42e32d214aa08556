// Diagnostics: errors and warnings carry the file, the line, the column, what is wrong and how to mend it.

package exports

import (
	"fmt"
	"strings"
)

// A SyntaxError is one mistake in a table. Line and Column count from 1, Column in bytes; both are 0 where the mistake
// has no place in a file, and Column is 0 where the whole line is meant.
type SyntaxError struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Msg    string `json:"message"`
	Remedy string `json:"remedy,omitempty"`
}

func (e *SyntaxError) Error() string {
	return diagnostic(e.File, e.Line, e.Column, "", e.Msg, e.Remedy)
}

// A Warning is something in a table that is in force but may not do what its author thinks.
type Warning struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Msg    string `json:"message"`
	Remedy string `json:"remedy,omitempty"`
}

func (w Warning) String() string {
	return diagnostic(w.File, w.Line, w.Column, "warning: ", w.Msg, w.Remedy)
}

func diagnostic(file string, line, column int, kind, msg, remedy string) string {
	var b strings.Builder
	b.WriteString(file)
	if line > 0 {
		fmt.Fprintf(&b, ":%d", line)
		if column > 0 {
			fmt.Fprintf(&b, ":%d", column)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(kind)
	b.WriteString(msg)
	if remedy != "" {
		b.WriteString("; ")
		b.WriteString(remedy)
	}
	return b.String()
}

// Errors is every mistake of a load, in the order of files and lines. errors.As finds a *SyntaxError in it.
type Errors []*SyntaxError

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the mistakes one by one.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, x := range e {
		list[i] = x
	}
	return list
}

// diags collects the diagnostics of one load, up to the limits; the rest are counted.
type diags struct {
	errs      Errors
	warns     []Warning
	moreErrs  int
	moreWarns int
}

func (d *diags) fail(file string, line, column int, msg, remedy string) {
	if len(d.errs) >= MaxErrors {
		d.moreErrs++
		return
	}
	d.errs = append(d.errs, &SyntaxError{file, line, column, msg, remedy})
}

func (d *diags) warn(file string, line, column int, msg, remedy string) {
	if len(d.warns) >= MaxWarnings {
		d.moreWarns++
		return
	}
	d.warns = append(d.warns, Warning{file, line, column, msg, remedy})
}

// result closes the list: the counts of what was left out become entries of their own.
func (d *diags) result() ([]Warning, error) {
	if d.moreWarns > 0 {
		d.warns = append(d.warns, Warning{Msg: fmt.Sprintf("%d more warnings are not shown", d.moreWarns)})
		d.moreWarns = 0
	}
	if d.moreErrs > 0 {
		d.errs = append(d.errs, &SyntaxError{Msg: fmt.Sprintf("%d more errors are not shown", d.moreErrs)})
		d.moreErrs = 0
	}
	if len(d.errs) > 0 {
		return d.warns, d.errs
	}
	return d.warns, nil
}
