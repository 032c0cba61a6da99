# Needs curl 7.84, which knows %header{}.
get() { # URL FILE
    for attempt in 1 2 3; do
        curl -sS -o "$2" -w '%{http_code}|%header{retry-after}|%header{proxy-status}\n' "$1" > head || return
        IFS='|' read -r status wait proxy_status < head
        case $proxy_status in wayleave\;*) ;; *) echo "$status"; return ;; esac # the origin's, whatever its status
        if [ -z "$wait" ] || [ "$attempt" = 3 ]; then break; fi # it would be refused again, or often enough
        sleep "$wait"
    done
    echo "refused by wayleave: $(cat "$2")"
    return 1
}

get https://example.com/ page.html
