package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/report/browsertest"
)

// pageOf starts linerate ui, and returns it with its link.
func pageOf(t testing.TB, db string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t, "ui", "--no-open", "--db", db)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	link, err := bufio.NewReader(out).ReadString('\n')
	must.Dof(t, err, "no link")
	return cmd, strings.TrimSpace(link)
}

// TestPageShowsWhatIsMeasured: an experiment in a lab that begins while the page is open
// appears in the list, its runs appear as they are measured, without the page being loaded
// again, and its report is that of linerate report. An open page keeps nothing from ending.
func TestPageShowsWhatIsMeasured(t *testing.T) {
	t.Parallel()
	needLab(t)
	b := browsertest.Start(t)
	db := filepath.Join(t.TempDir(), "results.db")
	page, link := pageOf(t, db)
	root, _, _ := strings.Cut(link, "/open/")
	p := b.Open(t, link, browsertest.View{Width: browsertest.Desk})
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	p.Until("document.body.innerText.includes('No session is stored yet')")

	session := command(t, "run", "lab:rate=100mbit,rtt=2ms", "--factor", "window=32KiB,256KiB", "--blocks", "4", "-t", "1s", "--omit", "0", "--settle", "0", "--no-twin", "-q", "--db", db)
	var said bytes.Buffer
	session.Stdout, session.Stderr = &said, &said
	must.Do(t, session.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the session said %q", said.String())
		}
	})
	p.Until("document.querySelector('.running')")
	browsertest.Eval[bool](p, "(document.querySelector('#part a[href*=session]').focus(), true)")
	p.Enter()
	p.Until("location.pathname.includes('/session/')")
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	browsertest.Eval[bool](p, "window.loaded = true")
	// Rates appear inside a run, before it is stored.
	p.Until("document.querySelector('#now td.n')?.textContent.endsWith('bit/s')")
	const count = "Number(document.body.innerText.match(/([0-9]+) of at most/)[1])"
	seen := browsertest.Eval[int](p, count)
	p.Until(count + " > " + strconv.Itoa(seen))
	err := session.Wait()
	must.Need(t, err == nil, "the session: %v\n%s", err, said.String())
	p.Until("document.getElementById('state').textContent == ''")
	must.True(t, browsertest.Eval[bool](p, "window.loaded === true && !document.querySelector('.running')"), "the page was loaded again, or says that the session runs")
	for _, x := range p.Problems() {
		t.Errorf("the console says %s", x)
	}
	id := browsertest.Eval[string](p, "location.pathname.split('/').pop()")
	p.Go(root + "/report/" + id)
	shown := browsertest.Eval[string](p, "fetch(location).then(r => r.text()).catch(e => String(e))")
	want := succeed(t, "report", id, "-o", "-", "--db", db).out
	must.True(t, shown == want, "the page has another report than linerate report: %d and %d bytes, it begins with %.200s", len(shown), len(want), shown)

	p.Go(root + "/")
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	must.Do(t, page.Process.Signal(os.Interrupt))
	must.OK(t, page.Wait(), "it ended with")
}

// TestPageIsForItsUser: what other programs of this machine, and other names for it, are
// answered.
func TestPageIsForItsUser(t *testing.T) {
	t.Parallel()
	page, link := pageOf(t, filepath.Join(t.TempDir(), "results.db"))
	root, _, _ := strings.Cut(link, "/open/")
	for host, want := range map[string]int{"": http.StatusForbidden, "linerate.example": http.StatusMisdirectedRequest} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, root+"/", http.NoBody))(t)
		r.Host = host
		answer := must.Get(http.DefaultClient.Do(r))(t)
		_ = answer.Body.Close()
		must.Equal(t, answer.StatusCode, want, "host %q", host)
	}
	must.Do(t, page.Process.Signal(os.Interrupt))
	must.OK(t, page.Wait(), "it ended with")
}
