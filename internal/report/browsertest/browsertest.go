// Package browsertest shows pages in a real browser, as users see them: in a desktop and a
// phone window, in light and dark mode, by keyboard alone, without a network. Tests skip, with
// a reason, if no browser is installed.
package browsertest

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// View is how to display a page.
type View struct {
	Width    int64 // the system prefers dark mode
	Dark     bool  // the system prefers dark ground
	NoScript bool  // scripts are switched off
}

// Desk and Phone are the tested window widths, in CSS pixels.
const (
	Desk  = 1280
	Phone = 390
)

// patience is the timeout of a browser operation.
const patience = 30 * time.Second

// Browser is a running browser.
type Browser struct{ ctx context.Context }

// Start starts a browser, which ends with t. It can only reach loopback: the network is off. It
// skips t if no browser is installed.
func Start(t *testing.T) *Browser {
	t.Helper()
	tmp, err := os.MkdirTemp("", "linerate-browser-") //nolint:usetesting // the path of the browser's socket there must be short (unix(7): 108 bytes)
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox needs rights that a container rarely has, and the pages are linerate's own.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Env("TMPDIR="+tmp))
	all, stop := chromedp.NewExecAllocator(context.Background(), options...) // ends in the cleanup, after the pages of t
	ctx, end := chromedp.NewContext(all)
	t.Cleanup(func() { end(); stop(); _ = os.RemoveAll(tmp) })
	if err := chromedp.Do(ctx); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("no browser: Debian has it in the package chromium")
		}
		t.Fatalf("start a browser: %v", err)
	}
	return &Browser{ctx}
}

// Page is a page in its own window.
type Page struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// Open shows the page at address, and waits until it is loaded. The window closes with t.
func (b *Browser) Open(t *testing.T, address string, v View) *Page {
	t.Helper()
	p := &Page{t: t}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithListener(p.heard))
	t.Cleanup(end)
	p.ctx = ctx
	p.do() // opens the window
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // only one of several windows has the focus
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.NoScript})
	p.Look(v)
	p.Go(address)
	return p
}

// Look changes the window size and colour mode of the open page.
func (p *Page) Look(v View) {
	p.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width, Height: 900, DeviceScaleFactor: 1, Mobile: v.Width < 600})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Go shows the page at address in the same window, and waits until it is loaded.
func (p *Page) Go(address string) { p.t.Helper(); p.do(chromedp.Navigate(address)) }

// call runs a command of the DevTools protocol.
func call[P, R any](p *Page, c cdp.Command[P, R], params P) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	if _, err := chromedp.Call(ctx, c, params); err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

// heard records the page's requests and console messages.
func (p *Page) heard(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.problems = append(p.problems, "console."+string(e.Type))
	case *log.EventEntryAdded:
		p.problems = append(p.problems, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.requests = append(p.requests, e.Request.URL)
		}
	}
}

// Problems returns the messages of the page's console: errors, warnings and exceptions.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problems
}

// Requests returns the addresses that the page requested, its own first, without data: URLs.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *Page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := p.ctx, context.CancelFunc(func() {})
	if len(steps) > 0 { // the first call, without steps, opens the window, which ends with its context
		ctx, stop = context.WithTimeout(p.ctx, patience)
	}
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

// Eval returns the value of a script in the page, or of its promise.
func Eval[T any](p *Page, script string) T {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", script, err)
	}
	return v
}

// Until waits until a script in the page is true, also across page loads.
func (p *Page) Until(script string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+script+")"))
		if err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("waiting for %s: %v", script, err)
		}
	}
}

// Tab presses the Tab key, which moves the focus on.
func (p *Page) Tab() { p.t.Helper(); p.do(chromedp.KeyEvent(kb.Tab)) }

// Enter presses the Enter key, which opens the focused element.
func (p *Page) Enter() { p.t.Helper(); p.do(chromedp.KeyEvent(kb.Enter)) }

// Shot writes the whole page to a PNG file.
func (p *Page) Shot(file string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(file, picture, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

//go:embed look.js
var look string

// Faults returns the visual faults of the page: text that is hard to read (WCAG 2.2, 1.4.3: a
// contrast below 4.5, or 3 for large text), lines of pictures that are hard to see (1.4.11:
// below 3), a page wider than its window, texts of pictures that touch each other or leave the
// picture.
func (p *Page) Faults() []string {
	p.t.Helper()
	return Eval[[]string](p, "("+look+")()")
}

// Keyboard presses Tab through the page and returns the number of controls, and those that were
// not reached or did not show the focus (WCAG 2.2, 2.1.1 and 2.4.7).
func (p *Page) Keyboard() (controls int, faults []string) {
	p.t.Helper()
	names := Eval[[]string](p, `(window.wanted = [...document.querySelectorAll('a[href],button,input,select,textarea,summary,[tabindex]')]
		.filter(e => e.tabIndex >= 0 && e.checkVisibility())).map(e => e.outerHTML.slice(0, 60))`)
	type state struct {
		Which int    `json:"which"`
		Shown bool   `json:"shown"`
		Name  string `json:"name"`
	}
	reached := map[int]bool{}
	for range len(names) + 3 { // scrollable elements take the focus too
		p.Tab()
		at := Eval[state](p, `(() => { const e = document.activeElement, s = getComputedStyle(e);
			return {which: wanted.indexOf(e), shown: e.matches(':focus-visible') && s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 1, name: e.outerHTML.slice(0, 60)} })()`)
		if at.Which < 0 {
			continue
		}
		if reached[at.Which] = true; !at.Shown {
			faults = append(faults, "does not show the focus: "+at.Name)
		}
	}
	for i, name := range names {
		if !reached[i] {
			faults = append(faults, "not reached by keyboard: "+name)
		}
	}
	return len(names), faults
}
