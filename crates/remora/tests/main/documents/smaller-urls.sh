head -n 3000 "$PROJECT/demo/urls_world.txt" > urls.txt
