package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"proxylab/bench/events/eventstest"
)

var screenshots = flag.String("screenshots", "", "directory to keep the browser test's screenshots in")

// browser is a headless Chromium that counts what its console complains about.
type browser struct {
	ctx context.Context
	t   *testing.T

	mu       sync.Mutex
	problems []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium here: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // a bound for a hang, not an expectation
	t.Cleanup(cancel)
	ctx, closeAll := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(closeAll)
	b := &browser{t: t}
	var closeTab context.CancelFunc
	b.ctx, closeTab = chromedp.NewContext(ctx)
	messages := chromedp.Console(b.ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for m, err := range messages {
			if err != nil {
				return // the browser is gone
			}
			b.hear(m)
		}
	}()
	t.Cleanup(func() {
		_ = chromedp.Cancel(b.ctx) // it is gone either way
		closeTab()
		<-heard
	})
	return b
}

func (b *browser) hear(m chromedp.ConsoleMessage) {
	switch m.Type {
	case chromedp.ConsoleError, chromedp.ConsoleWarning, chromedp.ConsoleException:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, m.String()+" "+m.URL)
	}
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// ask is what an action answers.
func ask[T any](b *browser, a chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the browser says: %s", p)
	}
	b.problems = nil
}

func (b *browser) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.run(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// shoot keeps what is seen, from the top.
func (b *browser) shoot(name string) {
	b.t.Helper()
	png := ask(b, chromedp.CaptureScreenshot())
	if !bytes.HasPrefix(png, []byte("\x89PNG")) {
		b.t.Errorf("screenshot %s is no picture", name)
	}
	dir := *screenshots
	if dir == "" {
		dir = b.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}

// fits says whether nothing sticks out at the side.
func (b *browser) fits(what string) {
	b.t.Helper()
	excess := ask(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
	if excess > 0 {
		b.t.Errorf("%s: the page is %d pixels wider than the window", what, excess)
	}
}

// axe says what axe-core finds serious or critical. The script is handed to the browser by its debugging protocol, which
// the page's policy has no say in.
func (b *browser) axe(script, what string) {
	b.t.Helper()
	if script == "" {
		return
	}
	b.run(chromedp.Evaluate[chromedp.Void](script + ";undefined"))
	found := ask(b, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(" | "))))`, chromedp.EvalAwaitPromise))
	var list []string
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		b.t.Fatalf("axe-core answers %q: %v", found, err)
	}
	for _, v := range list {
		b.t.Errorf("%s: %s", what, v)
	}
}

func axeCore(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Log("axe-core is not run: there is no npm to fetch it with")
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "../hack/axe.sh").Output()
	if err != nil {
		t.Logf("axe-core is not run: it could not be fetched: %v", err)
		return ""
	}
	script, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

func TestBrowser(t *testing.T) {
	b := newBrowser(t)
	axe := axeCore(t)
	dir := t.TempDir()
	whole := eventstest.Log(t)
	eventstest.Write(t, dir, "20261130-001613-quickstart", whole)
	eventstest.Write(t, dir, "20261130-001613-again", whole)
	url, _ := serve(t, newServer(t, dir, ""))

	t.Run("list and comparison", func(t *testing.T) {
		b.t = t
		b.size(1280, 800, false)
		b.run(chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(`form button`)))
		b.axe(axe, "list")
		b.shoot("list")
		b.run(chromedp.Click(chromedp.CSS(`form button`)), chromedp.WaitVisible(chromedp.CSS(`#compare-h`)))
		b.axe(axe, "comparison")
		b.fits("comparison")
		b.shoot("compare")
		b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("part-load-web").scrollIntoView()`))
		b.shoot("compare-charts")
		b.size(375, 800, true)
		b.fits("comparison on a phone")
		b.axe(axe, "comparison on a phone")
		b.shoot("compare-phone-dark")
		b.quiet()
	})
	for _, look := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"page", 1280, 900, false}, {"page-dark", 1280, 900, true}, {"phone", 375, 800, false}, {"phone-dark", 375, 800, true}} {
		t.Run(look.name, func(t *testing.T) {
			b.t = t
			b.size(look.width, look.height, look.dark)
			b.run(chromedp.Navigate(url+"/runs/20261130-001613-quickstart"), chromedp.WaitVisible(chromedp.CSS(`#part-findings .findings`)))
			b.fits(look.name)
			b.shoot(look.name)
			shown := ask(b, chromedp.Evaluate[int](`[...document.querySelectorAll("svg.drawing")].filter(s => s.getBoundingClientRect().width > 0).length`))
			figures := ask(b, chromedp.Evaluate[int](`document.querySelectorAll("figure").length`))
			if shown != figures || figures < 10 {
				t.Errorf("%d drawings are seen of %d charts", shown, figures)
			}
			b.axe(axe, look.name)
			b.run(chromedp.Evaluate[chromedp.Void](`document.getElementById("part-load-web").scrollIntoView()`))
			b.shoot(look.name + "-charts")
			b.quiet()
		})
	}
	t.Run("report", func(t *testing.T) {
		b.t = t
		b.size(1280, 900, false)
		b.run(chromedp.Navigate(url+"/runs/20261130-001613-quickstart/report.html"), chromedp.WaitVisible(chromedp.CSS(`.findings`)))
		b.axe(axe, "report")
		b.shoot("report")
		b.quiet()
	})
	t.Run("keyboard", func(t *testing.T) { b.t = t; b.keyboard(url) })
	t.Run("live", func(t *testing.T) { b.t = t; b.live(url, dir, whole, axe) })
}

// keyboard: the first stop is the way past the navigation, and a chart's table opens with the enter key.
func (b *browser) keyboard(url string) {
	b.run(chromedp.Navigate(url+"/runs/20261130-001613-quickstart"), chromedp.WaitVisible(chromedp.CSS(`.findings`)), chromedp.KeyEvent("\t"))
	if class := ask(b, chromedp.Evaluate[string](`document.activeElement.className`)); class != "skip" {
		b.t.Errorf("the first stop of the keyboard is %q", class)
	}
	b.run(chromedp.Focus(chromedp.CSS(`#load-web-p99 summary`)), chromedp.KeyEvent("\r"))
	if !ask(b, chromedp.Evaluate[bool](`document.querySelector("#load-web-p99 details").open`)) {
		b.t.Error("the enter key does not open a chart's table")
	}
	b.quiet()
}

// live: a run's log grows while its page is open. What the reader opened stays open, and the page is whole in the end.
func (b *browser) live(url, dir string, whole []byte, axe string) {
	t := b.t
	half := bytes.Index(whole, []byte(`{"proxier":"kube-proxy/iptables"`)) // two proxiers have been played
	path := eventstest.Write(t, dir, "now", whole[:half])
	b.size(1280, 900, false)
	b.run(chromedp.Navigate(url+"/runs/now"), chromedp.WaitVisible(chromedp.CSS(`.state.live`)),
		chromedp.Click(chromedp.CSS(`#load-web-p99 summary`)))
	b.axe(axe, "live")
	b.shoot("live")
	pieces := 4
	for i := range pieces {
		rest := whole[half:]
		appendTo(t, path, rest[len(rest)*i/pieces:len(rest)*(i+1)/pieces])
		if i == 0 {
			b.run(chromedp.Poll[chromedp.Void](`document.querySelector("#load-web-p99 .legend").textContent.includes("kube-proxy/iptables")`, chromedp.WithPollingTimeout(2*time.Minute)))
		}
	}
	b.run(chromedp.WaitVisible(chromedp.CSS(`.state.done`)),
		chromedp.Poll[chromedp.Void](`document.getElementById("live-status").textContent === "The page is complete."`, chromedp.WithPollingTimeout(2*time.Minute)))
	open := ask(b, chromedp.Evaluate[bool](`document.querySelector("#load-web-p99 details").open`))
	legend := ask(b, chromedp.Text(chromedp.CSS(`#load-web-p99 .legend`)))
	if !open || !strings.Contains(legend, "kube-proxy/nftables") {
		t.Errorf("at the end the table is open: %v, the legend is %q", open, legend)
	}
	b.shoot("live-end")
	b.quiet()
}
