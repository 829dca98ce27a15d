// Renews the parts of a page when the server has something new, and says when it can't.
{
  // The plots are renewed with every so many changes, and what is renewed often is shown as old after so long.
  const SLOW = 12, OLD_MS = 90000;
  const notice = document.getElementById("connection");
  let renewed = Date.now(), lost = false, running = false, again = false, count = 0;

  const show = () => {
    const old = lost || Date.now() - renewed > OLD_MS;
    document.body.classList.toggle("stale", old);
    notice.hidden = !old;
    // The same text all the time, so that a screen reader says it once.
    const text = `Not renewed since ${new Date(renewed).toLocaleTimeString()}: remora web is not reached, or text ` +
      "of this page is selected. It tries again.";
    if (old && notice.textContent !== text) notice.textContent = text;
  };

  // What has the focus gets it again, if it is still there.
  const replace = (here, there) => {
    const within = here.contains(document.activeElement) ? document.activeElement : null;
    const key = within && (within.getAttribute("href") || within.getAttribute("aria-label"));
    here.replaceChildren(...there.childNodes);
    if (within) {
      const same = [...here.querySelectorAll("a, [aria-label]")]
        .find((one) => key && (one.getAttribute("href") || one.getAttribute("aria-label")) === key);
      (same || document.getElementById("main")).focus({ preventScroll: true });
    }
    watchPlots(here);
  };

  const renew = async () => {
    if (running || document.hidden) {
      again = true;
      return;
    }
    running = true;
    again = false;
    try {
      const whole = count++ % SLOW === SLOW - 1;
      const address = new URL(location.href);
      address.searchParams.set("part", whole ? "all" : "now");
      const answer = await fetch(address, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      let isAll = true;
      for (const there of page.querySelectorAll("[data-part], #made")) {
        const here = document.getElementById(there.id);
        const isSelected = here && !getSelection().isCollapsed && getSelection().containsNode(here, true);
        isAll &&= !isSelected;
        if (here && !isSelected && here.innerHTML !== there.innerHTML) replace(here, there);
      }
      if (isAll) renewed = Date.now();
      lost = false;
    } catch {
      lost = true;
    }
    running = false;
    show();
    if (again) renew();
  };

  // The answer to a form is of its time.
  if (document.querySelector("[data-part]")) {
    const events = new EventSource("/events");
    let isFirst = true;
    events.addEventListener("message", () => {
      // The page that was just loaded is as new.
      if (!isFirst || lost) renew();
      isFirst = false;
    });
    events.addEventListener("error", () => {
      lost = true;
      show();
    });
    document.addEventListener("visibilitychange", () => { if (again && !document.hidden) renew(); });
    setInterval(show, 1000);
  }
}
