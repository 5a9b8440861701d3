#!/bin/bash
sed -i -e 's/"soup", price/"soup", "price"/' -e 's/},$/},/' -e 's/9.5},]/9.5}]/' -e "s/'bread'/\"bread\"/" menu.json
